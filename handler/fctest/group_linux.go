package fctest

import "syscall"

// ownGroup puts a process into a group of its own, whose leader dies with the
// thread that started it, whatever ends that.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup ends what a dead leader left behind.
func killGroup(leader int) { _ = syscall.Kill(-leader, syscall.SIGKILL) }
