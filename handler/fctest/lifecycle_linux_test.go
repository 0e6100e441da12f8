package fctest

import (
	"os"
	"os/exec"
	"testing"
)

func TestDeathOfParent(t *testing.T) {
	t.Run("the process dies with a parent that is killed", func(t *testing.T) {
		g := newGate(t, nil)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "FCTEST_PARENT="+g.url)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, g.arrived, "the function's call")
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		await(t, g.gone, "the function's end")
	})
}
