//go:build unix

package ratio

import (
	"syscall"
	"time"
)

// CPU is the processor time that this process has taken, all threads together,
// 0 where the system does not say. Unlike the time on the wall it depends little
// on what else the machine does.
func CPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
