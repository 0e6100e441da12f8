//go:build unix && !linux

package fctest

import "syscall"

// ownGroup puts a process into a group of its own. There is no parent death
// signal here: children of a parent that was killed must be ended by hand.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// killGroup ends what a dead leader left behind.
func killGroup(leader int) { _ = syscall.Kill(-leader, syscall.SIGKILL) }
