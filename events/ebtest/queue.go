package ebtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
)

// ErrNoDeadLetter is what deleting an unknown id returns.
var ErrNoDeadLetter = errors.New("no such dead letter")

// DeadLetter is one message of the dead-letter queue. As in the service it
// carries nothing of why it is there.
type DeadLetter struct {
	ID   string    // never given twice by one queue file
	Raw  []byte    // the event as it was delivered
	Time time.Time // when the queue took it
}

// DeadLetters returns the queue's messages, oldest first, as copies.
func (b *Bus) DeadLetters() ([]DeadLetter, error) { return b.queue.list() }

// DeleteDeadLetter removes one message. A stream that took it before delivers
// it all the same.
func (b *Bus) DeleteDeadLetter(id string) error { return b.queue.remove(id) }

// queue holds the messages in memory; with a file every change is written
// there first. The file has one bucket: an eight byte sequence number, big
// endian, to the eight bytes of the time in Unix nanoseconds and the event.
type queue struct {
	mu      sync.Mutex
	db      *bolt.DB // nil without a file
	closed  bool
	seq     uint64
	letters []letter
}

type letter struct {
	seq uint64
	DeadLetter
}

func openQueue(dir string) (*queue, error) {
	q := &queue{}
	if dir == "" {
		return q, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open dead-letter queue: %w", err)
	}
	// NoSync: letters must outlive the process, not a power cut.
	db, err := bolt.Open(filepath.Join(dir, "eventbridge.db"), 0o600, &bolt.Options{Timeout: time.Second, NoSync: true})
	if err != nil {
		return nil, fmt.Errorf("open dead-letter queue: %w", err)
	}
	q.db = db
	if err := db.Update(q.load); err != nil {
		return nil, errors.Join(fmt.Errorf("read dead-letter queue: %w", err), db.Close())
	}
	return q, nil
}

func (q *queue) load(tx *bolt.Tx) error {
	bucket, err := tx.CreateBucketIfNotExists(bucketName())
	if err != nil {
		return err
	}
	q.seq = bucket.Sequence()
	return bucket.ForEach(func(k, v []byte) error {
		if len(k) != 8 || len(v) < 8 {
			return errors.New("malformed message")
		}
		at := time.Unix(0, int64(binary.BigEndian.Uint64(v))).UTC()
		q.letters = append(q.letters, newLetter(binary.BigEndian.Uint64(k), at, v[8:]))
		return nil
	})
}

func bucketName() []byte { return []byte("dead_letters") }

func newLetter(seq uint64, at time.Time, raw []byte) letter {
	return letter{seq, DeadLetter{ID: fmt.Sprintf("%016x", seq), Raw: bytes.Clone(raw), Time: at}}
}

func (q *queue) put(raw []byte, at time.Time) (DeadLetter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return DeadLetter{}, ErrClosed
	}
	seq := q.seq + 1
	err := q.write(func(bucket *bolt.Bucket) error {
		v := binary.BigEndian.AppendUint64(nil, uint64(at.UnixNano()))
		if err := bucket.SetSequence(seq); err != nil {
			return err
		}
		return bucket.Put(binary.BigEndian.AppendUint64(nil, seq), append(v, raw...))
	})
	if err != nil {
		return DeadLetter{}, fmt.Errorf("put dead letter: %w", err)
	}
	q.seq = seq
	l := newLetter(seq, at.UTC(), raw)
	q.letters = append(q.letters, l)
	return l.DeadLetter, nil
}

func (q *queue) list() ([]DeadLetter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, fmt.Errorf("list dead letters: %w", ErrClosed)
	}
	out := make([]DeadLetter, 0, len(q.letters))
	for _, l := range q.letters {
		l.Raw = bytes.Clone(l.Raw)
		out = append(out, l.DeadLetter)
	}
	return out, nil
}

func (q *queue) remove(id string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return fmt.Errorf("delete dead letter: %w", ErrClosed)
	}
	i := slices.IndexFunc(q.letters, func(l letter) bool { return l.ID == id })
	if i < 0 {
		return fmt.Errorf("delete dead letter %q: %w", id, ErrNoDeadLetter)
	}
	err := q.write(func(bucket *bolt.Bucket) error {
		return bucket.Delete(binary.BigEndian.AppendUint64(nil, q.letters[i].seq))
	})
	if err != nil {
		return fmt.Errorf("delete dead letter: %w", err)
	}
	q.letters = slices.Delete(q.letters, i, i+1)
	return nil
}

func (q *queue) write(change func(*bolt.Bucket) error) error {
	if q.db == nil {
		return nil
	}
	return q.db.Update(func(tx *bolt.Tx) error { return change(tx.Bucket(bucketName())) })
}

func (q *queue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	if q.db == nil {
		return nil
	}
	if err := q.db.Close(); err != nil {
		return fmt.Errorf("close dead-letter queue: %w", err)
	}
	return nil
}
