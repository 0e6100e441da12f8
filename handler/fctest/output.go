package fctest

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

const (
	tailBytes = 2 << 10  // remembered of each stream
	lineBytes = 64 << 10 // held back at most while a line is incomplete
)

// output passes one stream of one process on in whole lines, up to a limit.
// Above it the stream is still read, so that the process never blocks on it.
type output struct {
	mu       *sync.Mutex // shared by all streams of a function
	w        io.Writer   // nil discards
	left     int
	limit    int
	instance string
	cut      bool

	line   []byte
	tail   []byte // the last bytes of the stream, also beyond the limit
	forgot bool   // tail is not the whole stream
}

func (o *output) Write(p []byte) (int, error) {
	n := len(p)
	o.tail = append(o.tail, p...)
	if over := len(o.tail) - tailBytes; over > 0 {
		o.tail = append(o.tail[:0], o.tail[over:]...)
		o.forgot = true
	}
	if o.w == nil || o.cut {
		return n, nil
	}
	if len(p) > o.left {
		p = p[:o.left]
		o.cut = true
	}
	o.left -= len(p)
	o.line = append(o.line, p...)
	if o.cut {
		o.emit(fmt.Appendf(o.line, "\n[instance %s: output cut after %d bytes]\n", o.instance, o.limit))
		o.line = nil
		return n, nil
	}
	whole := bytes.LastIndexByte(o.line, '\n') + 1
	if len(o.line) >= lineBytes {
		whole = len(o.line)
	}
	o.emit(o.line[:whole])
	o.line = append(o.line[:0], o.line[whole:]...)
	return n, nil
}

// finish passes on what is left of an incomplete last line.
func (o *output) finish() {
	if len(o.line) > 0 {
		o.emit(append(o.line, '\n'))
		o.line = nil
	}
}

func (o *output) emit(b []byte) {
	if len(b) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = o.w.Write(b)
}
