// Package simtest drives the real handler, ledger and SDKs through schedules
// that a seed chooses, and checks after every committed write what must hold.
//
//	worker --HTTP call--> gate (parked) --driver releases one--> stand-in
//	                                      |
//	                                      '-> checker: rows, objects, effects
//
// Goroutine order does not repeat, so nothing in a schedule may depend on it:
// each call of each worker waits in the gate until the driver, which waits
// itself until everybody else is blocked, lets one of them go. Every random
// draw happens in the driver. Time is the bubble's.
package simtest

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
