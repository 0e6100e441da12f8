package aliyun

import (
	"context"
	"fmt"
	"maps"
	"reflect"
)

// InsertOnce writes a new row and settles what the write alone leaves open: it
// reads the row back where one is there already, and where nobody knows whether
// the write took effect.
//
// found is nil where the row is this call's, written for certain or found as it was
// to be written once the answer was lost. Else it is what is under the key: the row
// of another, or of an earlier call of this one's kind, or what somebody has made of
// it since. An error is the write's where it settles that nothing was written, or
// where no row was found; else the reading's, and the write's after it.
func (t *Tablestore) InsertOnce(ctx context.Context, table Table, key string, row Row) (found Row, err error) {
	if err = t.Insert(ctx, table, key, row); err == nil {
		return nil, nil
	}
	kind := KindOf(err)
	if kind != KindCondition && kind != KindUnknown {
		return nil, err
	}
	found, ok, readErr := t.Get(ctx, table, key)
	switch {
	case readErr != nil:
		return nil, fmt.Errorf("read the row back: %w; the write: %w", readErr, err)
	case !ok:
		return nil, err
	case kind == KindUnknown && maps.EqualFunc(found, row, func(x, y any) bool { return reflect.DeepEqual(x, y) }):
		return nil, nil
	}
	return found, nil
}
