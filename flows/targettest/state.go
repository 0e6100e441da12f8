package targettest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Notification is one delivered notification.
type Notification struct {
	ID         string
	Key        string // Idempotency-Key, empty if there was none
	BodySHA256 string // hex
	Time       time.Time
	Count      int // calls it was answered to: the one that delivered it and its repeats
}

// RobotMessage is one message that the robot sent.
type RobotMessage struct {
	ID         string // the robot doesn't tell it
	Key        string // Idempotency-Key as it came, of no effect
	BodySHA256 string // hex
	Time       time.Time
}

// Record is one created record, visible or not.
type Record struct {
	ID         string
	Number     string
	Key        string // Idempotency-Key as it came, empty if there was none
	BodySHA256 string // hex
	Time       time.Time
}

// Notifications returns what was delivered, oldest first, as copies.
func (s *Server) Notifications() []Notification { return s.engine.state.listNotifications() }

// RobotMessages returns what the robot sent, oldest first, as copies.
func (s *Server) RobotMessages() []RobotMessage { return s.engine.state.listMessages() }

// Records returns what was created, oldest first, as copies.
func (s *Server) Records() []Record { return s.engine.state.listRecords() }

var (
	errKeyReused = errors.New("the Idempotency-Key came with another body before")
	errExists    = errors.New("the number exists already")
)

// state is what the targets have. Each effect is one critical section that
// decides, writes to disk and then to memory.
type state struct {
	opt  Options
	disk *disk // nil: memory alone

	mu            sync.Mutex
	notifications []Notification
	messages      []RobotMessage
	records       []Record
	scripts       map[string]int // calls by script
}

func openState(o Options) (*state, error) {
	s := &state{opt: o, scripts: map[string]int{}}
	if o.Dir == "" {
		return s, nil
	}
	d, err := openDisk(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := d.load(s); err != nil {
		return nil, errors.Join(err, d.db.Close())
	}
	s.disk = d
	return s, nil
}

func (s *state) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disk == nil {
		return nil
	}
	return s.disk.db.Close()
}

// count counts a call of a script and returns how many came before.
func (s *state) count(script string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.scripts[script]
	if err := s.disk.put(tableScripts, []byte(script), n+1); err != nil {
		return 0, err
	}
	s.scripts[script] = n + 1
	return n, nil
}

func (s *state) notify(c call) (Notification, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	i := lastIndex(s.notifications, func(n Notification) bool { return n.Key == c.key })
	if c.key == "" || i < 0 || s.forgotten(s.notifications[i].Time, now) {
		i = len(s.notifications)
		n := Notification{fmt.Sprintf("ntf-%d", i+1), c.key, c.sha, now, 1}
		if err := s.disk.put(tableNotifications, place(i), n); err != nil {
			return Notification{}, err
		}
		s.notifications = append(s.notifications, n)
		return n, nil
	}
	n := s.notifications[i]
	if n.BodySHA256 != c.sha {
		return Notification{}, errKeyReused
	}
	n.Count++
	if err := s.disk.put(tableNotifications, place(i), n); err != nil {
		return Notification{}, err
	}
	s.notifications[i] = n
	return n, nil
}

func (s *state) send(c call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	i := len(s.messages)
	m := RobotMessage{fmt.Sprintf("msg-%d", i+1), c.key, c.sha, now}
	if err := s.disk.put(tableMessages, place(i), m); err != nil {
		return err
	}
	s.messages = append(s.messages, m)
	return nil
}

// create returns the record that has the number with errExists.
func (s *state) create(c call) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.opt.RecordsHonourKey && c.key != "" {
		i := lastIndex(s.records, func(r Record) bool { return r.Key == c.key })
		switch {
		case i < 0 || s.forgotten(s.records[i].Time, now):
		case s.records[i].BodySHA256 != c.sha:
			return Record{}, errKeyReused
		default:
			return s.records[i], nil
		}
	}
	i := slices.IndexFunc(s.records, func(r Record) bool {
		return r.Number == c.number && (!s.opt.ConflictAfterVisible || s.visible(r, now))
	})
	if i >= 0 {
		return s.records[i], errExists
	}
	i = len(s.records)
	r := Record{fmt.Sprintf("rec-%d", i+1), c.number, c.key, c.sha, now}
	if err := s.disk.put(tableRecords, place(i), r); err != nil {
		return Record{}, err
	}
	s.records = append(s.records, r)
	return r, nil
}

func (s *state) find(number string) []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var found []Record
	for _, r := range s.records {
		if r.Number == number && s.visible(r, now) {
			found = append(found, r)
		}
	}
	return found
}

// now is the time without a zone and a monotonic part, as the disk gives it
// back. It is read in the critical section: what is there is never younger.
func (s *state) now() time.Time { return s.opt.Now().UTC().Round(0) }

func (s *state) forgotten(made, now time.Time) bool {
	return s.opt.KeyTTL > 0 && !now.Before(made.Add(s.opt.KeyTTL))
}

func (s *state) visible(r Record, now time.Time) bool {
	return !now.Before(r.Time.Add(s.opt.VisibleAfter))
}

func (s *state) listNotifications() []Notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.notifications)
}

func (s *state) listMessages() []RobotMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages)
}

func (s *state) listRecords() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.records)
}

func lastIndex[T any](list []T, is func(T) bool) int {
	for i, v := range slices.Backward(list) {
		if is(v) {
			return i
		}
	}
	return -1
}
