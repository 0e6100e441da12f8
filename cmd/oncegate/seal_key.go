package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/internal/messages"
)

// privateKeyVariable names the file of the private keys. The keys themselves are
// in no flag and no variable, where process lists and logs would show them.
const privateKeyVariable = "ONCEGATE_SEAL_PRIVATE_KEY_FILE"

// lostKey is what the owner of a new key must know before the first letter is sealed.
const lostKey = `There is no second key. Whoever loses this file loses every raw event sealed to it:
such letters can still be counted, grouped, explained and discarded, but never
replayed, migrated or revealed, and nobody can help. Keep two copies apart from
each other, neither of them where the function or the bucket is.
After a rotation letters that were sealed before still need the old key: put both
in one file, one a line.
`

func (a *app) sealKeyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "seal-key",
		Short: "Make and show the key that raw events of dead letters are sealed to",
		Long: `Make and show the key that raw events of dead letters are sealed to.

Sealing is opt-in: with a public key in ONCEGATE_SEAL_KEY the function, its intake
and dlq ingest write raw events that only the private key opens, so that a right
to read the bucket is no right to read them. The private key is needed where a
letter is replayed, migrated or revealed, in a file named by
` + privateKeyVariable + `. Letters from before stay readable as they are.

` + lostKey,
		Example: `  oncegate seal-key new --out ~/oncegate-seal.key
  oncegate seal-key show ~/oncegate-seal.key`,
	}
	cmd.AddCommand(a.sealKeyNewCommand(), a.sealKeyShowCommand())
	return parent(cmd)
}

// sealKeyView is a key pair as it is printed: its public half.
type sealKeyView struct {
	ID        string `json:"key_id"`
	PublicKey string `json:"public_key"`
}

func viewOfKey(k *artifacts.PrivateKey) sealKeyView {
	return sealKeyView{k.Public().ID(), k.Public().String()}
}

func (a *app) sealKeyNewCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "new --out FILE",
		Short: "Write a new private key to a file and print its public key",
		Long: `Write a new private key to a file and print its public key.

The file is readable by its owner alone, and one that is there already is never
overwritten. The public key is no secret: set it as ONCEGATE_SEAL_KEY.

` + lostKey,
		Example: `  oncegate seal-key new --out ~/oncegate-seal.key
  export ONCEGATE_SEAL_KEY=$(oncegate seal-key new --out ~/oncegate-seal-2027.key)
  cat ~/oncegate-seal-2027.key ~/oncegate-seal.key > ~/both.key && chmod 600 ~/both.key`,
		Args: cobra.NoArgs,
		RunE: runE(func(context.Context, []string) error {
			if out == "" {
				return usageErrorf("--out FILE is needed: the file that the private key is written to")
			}
			key, err := artifacts.NewPrivateKey()
			if err != nil {
				return err
			}
			if err := writePrivateKey(out, key); err != nil {
				return err
			}
			v := viewOfKey(key)
			fmt.Fprintf(a.err, "%s holds the private key %s.\n%s", inert(out), v.ID, lostKey)
			if a.output == outputJSON {
				return printJSON(a.out, struct {
					SchemaVersion int `json:"schema_version"`
					sealKeyView
					File string `json:"file"`
				}{1, v, out}, true)
			}
			_, err = fmt.Fprintln(a.out, v.PublicKey)
			return err
		}),
	}
	cmd.Flags().StringVar(&out, "out", "", "file of the private key, which must not be there yet")
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

func (a *app) sealKeyShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [FILE]",
		Short: "Print the ids and public keys of a file of private keys",
		Long: `Print the ids and public keys of a file of private keys, by default of the one
that ` + privateKeyVariable + ` names. The private keys are not shown.`,
		Example: `  oncegate seal-key show ~/oncegate-seal.key
  oncegate seal-key show --output json`,
		Args: cobra.MaximumNArgs(1),
		RunE: runE(func(_ context.Context, args []string) error {
			keys, err := a.privateKeys(args...)
			if err != nil {
				return err
			}
			if keys == nil {
				return usageErrorf("name a file of private keys, here or in %s", privateKeyVariable)
			}
			views := make([]sealKeyView, len(keys))
			rows := make([][]string, len(keys))
			for i, k := range keys {
				views[i] = viewOfKey(k)
				rows[i] = []string{views[i].ID, views[i].PublicKey}
			}
			if a.output == outputJSON {
				return printJSON(a.out, struct {
					SchemaVersion int           `json:"schema_version"`
					Keys          []sealKeyView `json:"keys"`
				}{1, views}, true)
			}
			printTable(a.out, []string{"key", "public key"}, rows)
			return nil
		}),
	}
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

// sealing is the public key that letters are sealed to, nil where none is set.
func (a *app) sealing() (*artifacts.SealKey, error) {
	text := strings.TrimSpace(a.getenv("ONCEGATE_SEAL_KEY"))
	if text == "" {
		return nil, nil
	}
	key, err := artifacts.ParseSealKey(text)
	if err != nil {
		return nil, usageErrorf("environment variable ONCEGATE_SEAL_KEY %w", err)
	}
	return key, nil
}

// privateKeys are those of a file, by default of the one that the environment
// names; nil where it names none.
func (a *app) privateKeys(file ...string) (artifacts.PrivateKeys, error) {
	name := cmp.Or(append(file, a.getenv(privateKeyVariable))...)
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, messages.Errorf("read private keys: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, messages.Errorf("read private keys: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, refusedf("%s is no plain file: private keys are read from nothing else", inert(name))
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, refusedf("%s can be read or changed by others than its owner: chmod 600 it, and make a new key if somebody may have read it", inert(name))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, messages.Errorf("read private keys: %w", err)
	}
	keys, err := artifacts.ParsePrivateKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", inert(name), err)
	}
	return keys, nil
}

// maxKeyFile bounds what is read of a file of keys, in bytes.
const maxKeyFile = 64 << 10

func writePrivateKey(name string, key *artifacts.PrivateKey) (err error) {
	text, err := key.Text()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return refusedf("%s is there already and is not overwritten: what is sealed to a lost key is lost", inert(name))
	}
	if err != nil {
		return fmt.Errorf("write private key: %w", err)
	}
	_, err = fmt.Fprintf(f, "# oncegate private key %s: whoever has it reads every raw event sealed to it\n%s\n", key.Public().ID(), text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(name) // ours, as it was created above
		return fmt.Errorf("write private key: %w", err)
	}
	return nil
}
