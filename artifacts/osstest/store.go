package osstest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	enabled   = "Enabled"
	suspended = "Suspended"
	nullID    = "null"
)

// settings are what a bucket is apart from its objects.
type settings struct {
	Name       string
	Created    time.Time
	Versioning string // "" until it is first set
	Lifecycle  []byte // XML, nil for none
	Encryption *encryptionRule
}

type bucket struct {
	settings
	keys map[string][]*version // oldest first; never an empty slice
}

// version is one version of an object or one delete marker. It never changes
// once it is in the store; new tags make a new version value of the same Seq.
type version struct {
	Seq         uint64 // unique and rising over all buckets
	Bucket      string
	Key         string
	ID          string
	Marker      bool
	Modified    time.Time
	Body        []byte
	ETag        string // quoted
	CRC         uint64
	ContentType string
	Headers     map[string]string // Cache-Control and its like
	Meta        map[string]string
	Tags        []tag
	SSE         string
	SSEKeyID    string
}

func (v *version) plain() Object {
	o := Object{
		Key: v.Key, VersionID: v.ID, Body: bytes.Clone(v.Body), Metadata: maps.Clone(v.Meta),
		ContentType: v.ContentType, DeleteMarker: v.Marker, SSE: v.SSE,
	}
	if len(v.Tags) > 0 {
		o.Tags = map[string]string{}
		for _, t := range v.Tags {
			o.Tags[t.Key] = t.Value
		}
	}
	return o
}

// current returns the newest version, or nil.
func (b *bucket) current(key string) *version {
	if vs := b.keys[key]; len(vs) > 0 {
		return vs[len(vs)-1]
	}
	return nil
}

func (b *bucket) find(key, id string) *version {
	for _, v := range b.keys[key] {
		if v.ID == id {
			return v
		}
	}
	return nil
}

// change is what one operation does to the store, all of it or nothing.
type change struct {
	settings *settings  // a bucket to create or to alter
	drop     string     // a bucket to remove
	remove   []*version // applied before add
	add      []*version // a known Seq replaces, a new one becomes the current version
}

// placing gives v its id by the bucket's versioning state and returns how it
// gets in. Outside of Enabled it takes the place of the one "null" version.
func (b *bucket) placing(v *version) change {
	ch := change{add: []*version{v}}
	if b.Versioning == enabled {
		v.ID = fmt.Sprintf("CAEQ%016X", v.Seq)
		return ch
	}
	v.ID = nullID
	if old := b.find(v.Key, nullID); old != nil {
		ch.remove = append(ch.remove, old)
	}
	return ch
}

// deleting returns what a delete without a version id does: it removes an
// object from an unversioned bucket and leaves a marker in any other. The
// marker is nil where there is none.
func (b *bucket) deleting(key string, seq uint64, now time.Time) (change, *version) {
	if b.Versioning != "" {
		marker := &version{Seq: seq, Bucket: b.Name, Key: key, Marker: true, Modified: now}
		return b.placing(marker), marker
	}
	if old := b.current(key); old != nil {
		return change{remove: []*version{old}}, nil
	}
	return change{}, nil
}

// store is the one authoritative state; the disk, where there is one, follows
// it call by call.
type store struct {
	buckets map[string]*bucket
	seq     uint64
	disk    *disk
}

func openStore(dir string) (*store, error) {
	s := &store{buckets: map[string]*bucket{}}
	if dir == "" {
		return s, nil
	}
	d, err := openDisk(dir)
	if err != nil {
		return nil, err
	}
	if err := d.load(s); err != nil {
		_ = d.db.Close()
		return nil, err
	}
	s.disk = d
	return s, nil
}

func (s *store) close() error {
	if s.disk == nil {
		return nil
	}
	return s.disk.db.Close()
}

// next returns a sequence number that was never used before.
func (s *store) next() uint64 {
	s.seq++
	return s.seq
}

// commit writes a change to the disk and then makes it visible. An error means
// that nothing happened.
func (s *store) commit(ch change) error {
	if s.disk != nil {
		if err := s.disk.write(ch, s.seq); err != nil {
			return fmt.Errorf("write object store: %w", err)
		}
	}
	s.apply(ch)
	return nil
}

func (s *store) apply(ch change) {
	if ch.settings != nil {
		if b := s.buckets[ch.settings.Name]; b != nil {
			b.settings = *ch.settings
		} else {
			s.buckets[ch.settings.Name] = &bucket{settings: *ch.settings, keys: map[string][]*version{}}
		}
	}
	delete(s.buckets, ch.drop)
	for _, v := range ch.remove {
		keys := s.buckets[v.Bucket].keys
		rest := slices.DeleteFunc(keys[v.Key], func(old *version) bool { return old.Seq == v.Seq })
		if len(rest) == 0 {
			delete(keys, v.Key)
			continue
		}
		keys[v.Key] = rest
	}
	for _, v := range ch.add {
		keys := s.buckets[v.Bucket].keys
		if i := slices.IndexFunc(keys[v.Key], func(old *version) bool { return old.Seq == v.Seq }); i >= 0 {
			keys[v.Key][i] = v
			continue
		}
		keys[v.Key] = append(keys[v.Key], v)
	}
}
