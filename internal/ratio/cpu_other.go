//go:build !unix

package ratio

import "time"

// CPU is not known here.
func CPU() time.Duration { return 0 }
