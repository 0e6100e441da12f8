//go:build !unix

package fctest

import "syscall"

func ownGroup() *syscall.SysProcAttr { return nil }

func killGroup(int) {}
