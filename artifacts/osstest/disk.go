package osstest

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

// disk keeps the store in one file with three tables:
//
//	buckets    name             -> settings, JSON
//	versions   seq, big endian  -> version, JSON
//	counter    "seq"            -> the last seq given out, big endian
type disk struct{ db *bbolt.DB }

func tableNames() (buckets, versions, counter []byte) {
	return []byte("buckets"), []byte("versions"), []byte("counter")
}

func openDisk(dir string) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}
	path := filepath.Join(dir, "oss.db")
	// Without fsync a write survives the process, not the machine.
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoSync: true})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("open object store %s: another process holds it: %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open object store %s: %w", path, err)
	}
	return &disk{db}, nil
}

// load fills an empty store. Versions come back in the order of their seq, so
// the last one of a key is its current one.
func (d *disk) load(s *store) error {
	buckets, versions, counter := tableNames()
	return d.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{buckets, versions, counter} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return fmt.Errorf("load object store: %w", err)
			}
		}
		err := tx.Bucket(buckets).ForEach(func(k, v []byte) error {
			var set settings
			if err := json.Unmarshal(v, &set); err != nil {
				return fmt.Errorf("load bucket %s: %w", k, err)
			}
			s.apply(change{settings: &set})
			return nil
		})
		if err != nil {
			return err
		}
		if b := tx.Bucket(counter).Get([]byte("seq")); len(b) == 8 {
			s.seq = binary.BigEndian.Uint64(b)
		}
		return tx.Bucket(versions).ForEach(func(k, raw []byte) error {
			v := &version{}
			if err := json.Unmarshal(raw, v); err != nil {
				return fmt.Errorf("load object version %x: %w", k, err)
			}
			if s.buckets[v.Bucket] == nil {
				return fmt.Errorf("load object version %x: its bucket %s is missing", k, v.Bucket)
			}
			s.apply(change{add: []*version{v}})
			return nil
		})
	})
}

func (d *disk) write(ch change, seq uint64) error {
	buckets, versions, counter := tableNames()
	return d.db.Update(func(tx *bbolt.Tx) error {
		if ch.settings != nil {
			if err := put(tx.Bucket(buckets), []byte(ch.settings.Name), ch.settings); err != nil {
				return err
			}
		}
		if ch.drop != "" {
			if err := tx.Bucket(buckets).Delete([]byte(ch.drop)); err != nil {
				return err
			}
		}
		for _, v := range ch.remove {
			if err := tx.Bucket(versions).Delete(bigEndian(v.Seq)); err != nil {
				return err
			}
		}
		for _, v := range ch.add {
			if err := put(tx.Bucket(versions), bigEndian(v.Seq), v); err != nil {
				return err
			}
		}
		return tx.Bucket(counter).Put([]byte("seq"), bigEndian(seq))
	})
}

func put(b *bbolt.Bucket, key []byte, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return b.Put(key, raw)
}

func bigEndian(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
