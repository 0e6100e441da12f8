package infra

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheSameSourceMakesTheSamePackage builds from a second copy of the source, in
// another folder, at another time and under another umask: who has the source can
// tell whether a deployed package is made of it.
func TestTheSameSourceMakesTheSamePackage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the function twice")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("the scripts need bash")
	}
	one, other := copySource(t), copySource(t)
	build := func(dir, umask string) []byte {
		out := filepath.Join(t.TempDir(), "function.zip")
		cmd := exec.CommandContext(t.Context(), bash, "-c", "umask "+umask+` && exec scripts/build.sh "$1"`, "build", out)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		raw, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	a, b := build(one, "022"), build(other, "077")
	if len(a) < 1<<20 || !bytes.Equal(a, b) {
		t.Errorf("two builds of one source differ: %d and %d bytes", len(a), len(b))
	}
	if bytes.Contains(a, []byte(one)) {
		t.Error("the package names the folder that it was built in")
	}
}

// copySource copies what a build reads.
func copySource(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (rel == "target" || rel != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(rel, "_test.go"):
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), raw, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}
