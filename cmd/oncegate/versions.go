package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// versionsFolder holds what the local cloud has published: version N's binary and
// its flows.yaml, as Function Compute freezes code and configuration of a version.
const versionsFolder = "versions"

// keptVersions is how many published versions the local cloud keeps.
const keptVersions = 5

// version is one published version of the local function.
type version struct {
	Number   int       `json:"version"`
	SHA256   string    `json:"sha256"` // of the binary and the flows file
	At       time.Time `json:"published_at"`
	OwnFlows bool      `json:"own_flows"` // it has a flows file of its own
}

func (v version) qualifier() string { return strconv.Itoa(v.Number) }

func (v version) binary(stateDir string) string {
	return filepath.Join(stateDir, versionsFolder, v.qualifier(), "function")
}

func (v version) flows(stateDir string) string {
	if !v.OwnFlows {
		return ""
	}
	return filepath.Join(stateDir, versionsFolder, v.qualifier(), "flows.yaml")
}

// published returns the versions that the local cloud has, oldest first.
func published(stateDir string) ([]version, error) {
	raw, err := os.ReadFile(filepath.Join(stateDir, versionsFolder, "versions.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read versions: %w", err)
	}
	var all []version
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("read versions: %s is damaged; --fresh starts anew", versionsFolder)
	}
	return all, nil
}

// publishVersion makes a version of a binary and a flows file, unless the newest one is
// just that.
func publishVersion(stateDir, binary, flowsFile string, now time.Time) (version, error) {
	all, err := published(stateDir)
	if err != nil {
		return version{}, err
	}
	sum, err := hashFiles(binary, flowsFile)
	if err != nil {
		return version{}, fmt.Errorf("publish version: %w", err)
	}
	next := version{Number: 1, SHA256: sum, At: now.UTC(), OwnFlows: flowsFile != ""}
	if n := len(all); n > 0 {
		if all[n-1].SHA256 == sum {
			return all[n-1], nil
		}
		next.Number = all[n-1].Number + 1
	}
	if err := os.MkdirAll(filepath.Join(stateDir, versionsFolder, next.qualifier()), 0o700); err != nil {
		return version{}, fmt.Errorf("publish version: %w", err)
	}
	if err := copyFile(binary, next.binary(stateDir), 0o700); err != nil {
		return version{}, fmt.Errorf("publish version: %w", err)
	}
	if flowsFile != "" {
		if err := copyFile(flowsFile, next.flows(stateDir), 0o600); err != nil {
			return version{}, fmt.Errorf("publish version: %w", err)
		}
	}
	all = append(all, next)
	var gone []version
	if n := len(all); n > keptVersions {
		gone, all = slices.Clone(all[:n-keptVersions]), all[n-keptVersions:]
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return version{}, fmt.Errorf("publish version: %w", err)
	}
	name := filepath.Join(stateDir, versionsFolder, "versions.json")
	if err := os.WriteFile(name+".new", raw, 0o600); err != nil {
		return version{}, fmt.Errorf("publish version: %w", err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return version{}, fmt.Errorf("publish version: %w", err)
	}
	for _, v := range gone {
		if err := os.RemoveAll(filepath.Join(stateDir, versionsFolder, v.qualifier())); err != nil {
			return version{}, fmt.Errorf("remove version: %w", err)
		}
	}
	return next, nil
}

func hashFiles(names ...string) (string, error) {
	h := sha256.New()
	for _, name := range names {
		if name == "" {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", err
		}
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func copyFile(from, to string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	// A running version's file cannot be written to; a new name replaces it.
	out, err := os.OpenFile(to+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}
