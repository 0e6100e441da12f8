package flows

import (
	"slices"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/events"
)

// Change is one difference between two events: where and of what kind, without
// the values.
type Change struct {
	Path string `json:"path"` // JSON pointer into the event
	Kind string `json:"kind"` // added, removed or changed
}

// Diff lists what a migration has changed, by path.
func Diff(before, after *events.Event) []Change {
	var all []Change
	diff(before.Tree(), after.Tree(), "", &all)
	slices.SortFunc(all, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return all
}

func diff(before, after any, path string, all *[]Change) {
	switch a := before.(type) {
	case map[string]any:
		b, ok := after.(map[string]any)
		if !ok {
			break
		}
		for name, v := range a {
			at := path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			if w, ok := b[name]; ok {
				diff(v, w, at, all)
			} else {
				*all = append(*all, Change{at, "removed"})
			}
		}
		for name := range b {
			if _, ok := a[name]; !ok {
				*all = append(*all, Change{path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name), "added"})
			}
		}
		return
	case []any:
		b, ok := after.([]any)
		if !ok {
			break
		}
		for i := range max(len(a), len(b)) {
			at := path + "/" + strconv.Itoa(i)
			switch {
			case i >= len(b):
				*all = append(*all, Change{at, "removed"})
			case i >= len(a):
				*all = append(*all, Change{at, "added"})
			default:
				diff(a[i], b[i], at, all)
			}
		}
		return
	default:
		switch after.(type) {
		case map[string]any, []any:
		default:
			if before == after {
				return
			}
		}
	}
	*all = append(*all, Change{path, "changed"})
}
