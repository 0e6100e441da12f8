package targettest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// The tables of the file. Effects stand at their place, eight bytes big
// endian, and none is ever removed; a script's count stands under its hash.
const (
	tableNotifications = "notifications"
	tableMessages      = "robot_messages"
	tableRecords       = "records"
	tableScripts       = "scripts"
)

// disk keeps the state in one file of JSON values. A nil disk keeps nothing.
type disk struct{ db *bbolt.DB }

func openDisk(dir string) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open target state: %w", err)
	}
	path := filepath.Join(dir, "targets.db")
	// Without fsync a write survives the process, not the machine.
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoSync: true})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("open target state %s: another process holds it: %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open target state %s: %w", path, err)
	}
	return &disk{db}, nil
}

func (d *disk) load(s *state) error {
	return d.db.Update(func(tx *bbolt.Tx) error {
		return errors.Join(
			loadList(tx, tableNotifications, &s.notifications),
			loadList(tx, tableMessages, &s.messages),
			loadList(tx, tableRecords, &s.records),
			loadTable(tx, tableScripts, func(k []byte, n int) error { s.scripts[string(k)] = n; return nil }),
		)
	})
}

func loadList[T any](tx *bbolt.Tx, table string, list *[]T) error {
	return loadTable(tx, table, func(k []byte, v T) error {
		if string(k) != string(place(len(*list))) {
			return fmt.Errorf("load %s: %x stands at place %d", table, k, len(*list))
		}
		*list = append(*list, v)
		return nil
	})
}

func loadTable[T any](tx *bbolt.Tx, table string, take func(k []byte, v T) error) error {
	b, err := tx.CreateBucketIfNotExists([]byte(table))
	if err != nil {
		return fmt.Errorf("load %s: %w", table, err)
	}
	return b.ForEach(func(k, raw []byte) error {
		var v T
		if err := json.Unmarshal(raw, &v); err != nil {
			return fmt.Errorf("load %s: %x: %w", table, k, err)
		}
		return take(k, v)
	})
}

func (d *disk) put(table string, key []byte, value any) error {
	if d == nil {
		return nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s: %w", table, err)
	}
	err = d.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(table)).Put(key, raw) })
	if err != nil {
		return fmt.Errorf("write %s: %w", table, err)
	}
	return nil
}

func place(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
