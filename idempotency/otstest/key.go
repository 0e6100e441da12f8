package otstest

import (
	"encoding/binary"
	"iter"
	"slices"
	"sort"
)

// Bytes that lead a column of a key, in the order of the service.
const (
	keyMin   = 0x00
	keyValue = 0x01
	keyMax   = 0x02
)

// keyOf writes a primary key so that comparing bytes compares keys: integers
// big-endian with the sign bit turned, strings with 0x00 doubled to 0x00 0xff
// and closed by 0x00 0x01.
func keyOf(pk []value) string {
	var b []byte
	for _, v := range pk {
		switch v.kind {
		case kindInfMin:
			b = append(b, keyMin)
		case kindInfMax:
			b = append(b, keyMax)
		case kindInteger:
			b = append(b, keyValue)
			b = binary.BigEndian.AppendUint64(b, uint64(v.num)^1<<63)
		default:
			b = append(b, keyValue)
			for i := range len(v.str) {
				if b = append(b, v.str[i]); v.str[i] == 0 {
					b = append(b, 0xff)
				}
			}
			b = append(b, 0, 1)
		}
	}
	return string(b)
}

// chunkSize bounds how much an insertion moves.
const chunkSize = 512

// keyList is a sorted set of keys, kept in chunks.
type keyList struct{ chunks [][]string }

// find returns the place of the first key that is not below key.
func (l *keyList) find(key string) (chunk, at int) {
	chunk = sort.Search(len(l.chunks), func(i int) bool {
		c := l.chunks[i]
		return c[len(c)-1] >= key
	})
	if chunk < len(l.chunks) {
		at, _ = slices.BinarySearch(l.chunks[chunk], key)
	}
	return chunk, at
}

// insert adds a key that is not in the list.
func (l *keyList) insert(key string) {
	chunk, at := l.find(key)
	if chunk == len(l.chunks) {
		if chunk == 0 {
			l.chunks = append(l.chunks, []string{key})
			return
		}
		chunk--
		at = len(l.chunks[chunk])
	}
	c := slices.Insert(l.chunks[chunk], at, key)
	l.chunks[chunk] = c
	if len(c) > chunkSize {
		half := len(c) / 2
		l.chunks[chunk] = c[:half:half]
		l.chunks = slices.Insert(l.chunks, chunk+1, slices.Clone(c[half:]))
	}
}

// remove takes out a key that is in the list.
func (l *keyList) remove(key string) {
	chunk, at := l.find(key)
	c := slices.Delete(l.chunks[chunk], at, at+1)
	if l.chunks[chunk] = c; len(c) == 0 {
		l.chunks = slices.Delete(l.chunks, chunk, chunk+1)
	}
}

// forward yields the keys in [from, to) in rising order.
func (l *keyList) forward(from, to string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for chunk, at := l.find(from); chunk < len(l.chunks); chunk, at = chunk+1, 0 {
			for _, key := range l.chunks[chunk][at:] {
				if key >= to || !yield(key) {
					return
				}
			}
		}
	}
}

// backward yields the keys in (to, from] in falling order.
func (l *keyList) backward(from, to string) iter.Seq[string] {
	return func(yield func(string) bool) {
		chunk, at := l.find(from)
		if chunk < len(l.chunks) && l.chunks[chunk][at] == from {
			at++
		}
		for {
			if at == 0 {
				if chunk--; chunk < 0 {
					return
				}
				at = len(l.chunks[chunk])
			}
			at--
			if key := l.chunks[chunk][at]; key <= to || !yield(key) {
				return
			}
		}
	}
}

// all yields every key in rising order.
func (l *keyList) all() iter.Seq[string] { return l.forward("", "\xff") }
