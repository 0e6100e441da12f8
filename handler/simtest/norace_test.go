//go:build !race

package simtest

// schedules of one run.
const schedules = 1000
