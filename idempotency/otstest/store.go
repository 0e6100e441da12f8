package otstest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// storeFile is the name of the file under Options.Dir.
const storeFile = "tablestore.db"

// store keeps tables in a file: one bucket a table, with the description under
// metaKey, the last auto-increment value under autoKey and every row under 'r'
// and its key. It is written through, without
// fsync: what was acknowledged survives the death of the process, not that of
// the machine. A nil store keeps nothing.
type store struct{ db *bbolt.DB }

const (
	autoKey   = "a"
	metaKey   = "m"
	rowPrefix = "r"
)

func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create directory of tablestore stand-in: %w", err)
	}
	path := filepath.Join(dir, storeFile)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoSync: true, NoFreelistSync: true})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("open %s: another process holds it: %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return &store{db}, nil
}

func (s *store) close() error {
	if s == nil {
		return nil
	}
	return s.db.Close()
}

func (s *store) putTable(t *table) error {
	if s == nil {
		return nil
	}
	meta, err := proto.Marshal(t.desc)
	if err != nil {
		return fmt.Errorf("encode table %s: %w", t.name, err)
	}
	return s.db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(t.name))
		if err != nil {
			return err
		}
		return b.Put([]byte(metaKey), meta)
	})
}

func (s *store) deleteTable(name string) error {
	if s == nil {
		return nil
	}
	return s.db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(name)) })
}

// putRow stores a row and how far the table has counted; nil removes the row.
func (s *store) putRow(t *table, key string, r *row) error {
	if s == nil {
		return nil
	}
	return s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(t.name))
		if t.auto >= 0 {
			if err := b.Put([]byte(autoKey), binary.LittleEndian.AppendUint64(nil, uint64(t.last))); err != nil {
				return err
			}
		}
		if r == nil {
			return b.Delete([]byte(rowPrefix + key))
		}
		return b.Put([]byte(rowPrefix+key), t.encode(r))
	})
}

func (s *store) load() (map[string]*table, error) {
	tables := map[string]*table{}
	if s == nil {
		return tables, nil
	}
	err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			t, err := loadTable(b)
			if err != nil {
				return fmt.Errorf("load table %s: %w", name, err)
			}
			tables[string(name)] = t
			return nil
		})
	})
	return tables, err
}

func loadTable(b *bbolt.Bucket) (*table, error) {
	desc := new(otsprotocol.DescribeTableResponse)
	if err := proto.Unmarshal(b.Get([]byte(metaKey)), desc); err != nil {
		return nil, err
	}
	t := newTable(desc)
	if last := b.Get([]byte(autoKey)); len(last) == 8 {
		t.last = int64(binary.LittleEndian.Uint64(last))
	}
	c := b.Cursor()
	for k, v := c.Seek([]byte(rowPrefix)); k != nil; k, v = c.Next() {
		r, err := t.decode(v)
		if err != nil {
			return nil, err
		}
		t.put(string(k[len(rowPrefix):]), r)
	}
	return t, nil
}

// encode writes a row as its clock and a PlainBuffer with all versions.
func (t *table) encode(r *row) []byte {
	w := wireRow{pk: t.wire(r.pk)}
	for _, c := range r.columns {
		for _, v := range c.versions {
			w.attrs = append(w.attrs, cell{name: c.name, val: v.val, hasValue: true, at: v.at, hasAt: true})
		}
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(r.clock))
	return append(b, encodeRows(w)...)
}

func (t *table) decode(b []byte) (*row, error) {
	if len(b) < 8 {
		return nil, errShort()
	}
	w, err := decodeRow(b[8:])
	if err != nil {
		return nil, err
	}
	r := &row{clock: int64(binary.LittleEndian.Uint64(b))}
	if r.pk, err = t.keyFrom(w.pk, keyOfRow); err != nil {
		return nil, err
	}
	for _, c := range w.attrs {
		v := version{c.at, c.val}
		if n := len(r.columns); n > 0 && r.columns[n-1].name == c.name {
			r.columns[n-1].versions = append(r.columns[n-1].versions, v)
			continue
		}
		r.columns = append(r.columns, column{c.name, []version{v}})
	}
	return r, nil
}
