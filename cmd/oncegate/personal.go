package main

import (
	"fmt"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/internal/personal"
)

// warnOfPersonal names places of events that hold what is shaped like a secret
// or personal data, never the value. It holds nothing up.
func (a *app) warnOfPersonal(set *flows.Set, files []eventFile) {
	warned := false
	for _, f := range files {
		for _, found := range personalIn(set, f.raw) {
			warned = true
			fmt.Fprintf(a.err, "warning: %s: %s is shaped like: %s\n", inert(f.name), inert(found.Path), found.Shape)
		}
	}
	if warned {
		fmt.Fprintln(a.err, "warning: dead letters and outputs keep what events hold; send a reference instead, and mark a key field that must be there as `sensitive` in flows.yaml")
	}
}

// personalIn looks outside the fields that the event's flow marks as sensitive.
func personalIn(set *flows.Set, raw []byte) []personal.Finding {
	e, err := events.Decode(raw)
	if err != nil {
		return nil
	}
	f := set.Find(e)
	if f == nil {
		return personal.Find(e.Tree(), nil)
	}
	in, err := f.Input(e)
	if err != nil {
		return personal.Find(e.Tree(), nil)
	}
	return personal.Find(in.Tree(), f.SensitivePaths())
}
