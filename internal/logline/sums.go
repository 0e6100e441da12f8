package logline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Sums are what lines of the log add up to: what no table knows, since a copy
// that is recognised leaves no row.
type Sums struct {
	Claims      int            // new records
	Attempts    int            // runs that began, first ones included
	Deliveries  map[string]int // by decision
	Duplicates  map[string]int // by how the copy was recognised
	Replays     map[string]int // replayed events by decision
	Transitions map[string]int // by the status that a task came to
	Letters     map[string]int // new dead letters by fingerprint
	Lines       int            // that were counted
	Other       int            // lines that are none of the function's log
}

// maxLine bounds one line, in bytes; a longer one is none of the function's.
const maxLine = 1 << 20

// Sum adds up the lines of a log. Other lines, as the runtime prints them, are
// passed over. An error is one of reading.
func Sum(r io.Reader) (Sums, error) {
	s := Sums{
		Deliveries: map[string]int{}, Duplicates: map[string]int{}, Replays: map[string]int{}, Transitions: map[string]int{}, Letters: map[string]int{},
	}
	in := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line) <= maxLine {
			line = append(line, part...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		s.add(bytes.TrimSpace(line))
		line = line[:0]
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return s, fmt.Errorf("read log: %w", err)
		}
	}
}

func (s *Sums) add(line []byte) {
	if len(line) == 0 {
		return
	}
	var l struct {
		Msg, From, Status, State, Call, Decision, Duplicate, Fingerprint string
	}
	if len(line) > maxLine || json.Unmarshal(line, &l) != nil {
		s.Other++
		return
	}
	s.Lines++
	switch l.Msg {
	case Delivery:
		s.Deliveries[l.Decision]++
		if l.Duplicate != "" {
			s.Duplicates[l.Duplicate]++
		}
		if l.Call == "replay" {
			s.Replays[l.Decision]++
		}
	case Transition:
		s.Transitions[l.Status]++
		if l.From == "" {
			s.Claims++
		}
		if l.Status == "RUNNING" {
			s.Attempts++
		}
	case Letter:
		if l.From == "" {
			s.Letters[l.Fingerprint]++
		}
	case Effect, Review, Adopted, Intake:
	default:
		s.Lines--
		s.Other++
	}
}
