package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/internal/messages"
	"github.com/oncegate/oncegate/internal/strictjson"
)

// letterFile is a file of messages, walked as often as is asked: what is read one by
// one may have any size.
type letterFile struct {
	name  string // "-" for standard input, which is held in memory
	stdin io.Reader
	limit int // bytes of one message

	whole [][]byte // of a file that was read as a whole
}

// each calls fn with the messages of the file: its lines, the members of its one
// array, or the whole of it. fn must not keep them.
func (f *letterFile) each(fn func([]byte) error) error {
	walk, err := f.shape()
	if err != nil {
		return err
	}
	if walk != nil {
		return walk(fn)
	}
	for _, m := range f.whole {
		if err := fn(m); err != nil {
			return err
		}
	}
	return nil
}

// shape says how the file is walked; nil where its messages are in f.whole.
func (f *letterFile) shape() (walk func(func([]byte) error) error, err error) {
	switch {
	case f.whole != nil:
		return nil, nil
	case f.name == "-":
		return nil, f.read(f.stdin)
	case strings.HasSuffix(f.name, ".jsonl"):
		return f.lines, nil
	}
	file, err := f.open()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, messages.Errorf("read dead letters: %w", err)
	}
	if info.Size() <= int64(f.limit) {
		return nil, f.read(file)
	}
	switch first := f.firstLine(file); {
	case f.isMessage(first):
		return f.lines, nil
	case len(first) > 0 && first[0] == '[':
		return f.members, nil
	}
	return nil, f.tooLarge()
}

func (f *letterFile) tooLarge() error {
	return messages.Errorf("read dead letters: %s is larger than %d bytes: put one JSON value on each line, or all into one array", f.name, f.limit)
}

func (f *letterFile) open() (*os.File, error) {
	file, err := os.Open(f.name)
	if err != nil {
		return nil, messages.Errorf("read dead letters: %w", err)
	}
	return file, nil
}

// firstLine is the first line that holds something, as far as it may be long.
func (f *letterFile) firstLine(r io.Reader) []byte {
	lines := bufio.NewReader(io.LimitReader(r, int64(f.limit)+1))
	for {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 || err != nil {
			return line
		}
	}
}

// isMessage reports whether a line is a message of its own.
func (f *letterFile) isMessage(line []byte) bool {
	if len(line) == 0 || len(line) > f.limit {
		return false
	}
	items := deadletter.Split(line)
	return len(items) != 1 || items[0].Origin != deadletter.OriginUnreadable
}

func (f *letterFile) lines(fn func([]byte) error) error {
	file, err := f.open()
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 0, min(f.limit, 64<<10)), f.limit)
	for lines.Scan() {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			if err := fn(line); err != nil {
				return err
			}
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return messages.Errorf("read dead letters: a line of %s is longer than %d bytes", f.name, f.limit)
	}
	if err := lines.Err(); err != nil {
		return messages.Errorf("read dead letters: %w", err)
	}
	return nil
}

func (f *letterFile) members(fn func([]byte) error) error {
	file, err := f.open()
	if err != nil {
		return err
	}
	defer file.Close()
	var mine error
	err = strictjson.EachMember(file, f.limit, func(member []byte) error {
		mine = fn(member)
		return mine
	})
	switch {
	case mine != nil:
		return mine
	case errors.Is(err, strictjson.ErrLong):
		return messages.Errorf("read dead letters: a member of the array in %s is longer than %d bytes", f.name, f.limit)
	case err != nil:
		return messages.Errorf("read dead letters: the array in %s is broken, and too large to be kept as one letter: %w", f.name, err)
	}
	return nil
}

// read holds all messages: one a line where every line is a value of its own, else
// the whole as one.
func (f *letterFile) read(r io.Reader) error {
	raw, err := io.ReadAll(io.LimitReader(r, int64(f.limit)+1))
	if err != nil {
		return messages.Errorf("read dead letters: %w", err)
	}
	if len(raw) > f.limit {
		return f.tooLarge()
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return usageErrorf("%s holds nothing", f.name)
	}
	for line := range bytes.Lines(raw) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if !f.isMessage(line) {
			f.whole = [][]byte{raw} // a value that spans lines
			return nil
		}
		f.whole = append(f.whole, line)
	}
	return nil
}
