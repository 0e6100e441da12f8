//go:build race

package simtest

// schedules of one run: the race detector makes each several times as long.
const schedules = 100
