package aliyun

import (
	"fmt"
	"time"
)

// Columns is a row being written: empty texts and zero times leave no column.
type Columns struct{ Row Row }

// Text sets a column unless the text is empty.
func (c Columns) Text(name, text string) {
	if text != "" {
		c.Row[name] = text
	}
}

// Number sets a column, zero included.
func (c Columns) Number(name string, n int64) { c.Row[name] = n }

// Time sets a column to milliseconds since 1970 unless the time is zero.
func (c Columns) Time(name string, at time.Time) {
	if !at.IsZero() {
		c.Row[name] = at.UnixMilli()
	}
}

// Reader reads the typed columns of a row and keeps the first error. A missing
// column reads as the zero value.
type Reader struct {
	Row Row
	Err error
}

// Text reads a string column.
func (r *Reader) Text(name string) string {
	s, ok := r.Row[name].(string)
	if !ok && r.Row[name] != nil {
		r.Fail(name)
	}
	return s
}

// Number reads an integer column.
func (r *Reader) Number(name string) int64 {
	n, ok := r.Row[name].(int64)
	if !ok && r.Row[name] != nil {
		r.Fail(name)
	}
	return n
}

// earliestMilli is the year 2001: anything before it was written in seconds.
const earliestMilli = 978_307_200_000

// PlausibleMilli reports whether a number may be milliseconds since 1970 of a time
// that a row can keep: from 2001 to the year 9999.
func PlausibleMilli(n int64) bool { return n >= earliestMilli && n <= latestMilli }

const latestMilli = 253_402_300_799_999

// Time reads a column of milliseconds since 1970. A value that can only be
// seconds is an error, never a time in 1970.
func (r *Reader) Time(name string) time.Time {
	ms := r.Number(name)
	switch {
	case ms == 0:
		return time.Time{}
	case ms < earliestMilli:
		r.Fail(name)
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Fail notes that a column cannot be used.
func (r *Reader) Fail(name string) {
	if r.Err == nil {
		r.Err = fmt.Errorf("column %s has an unexpected value", name)
	}
}
