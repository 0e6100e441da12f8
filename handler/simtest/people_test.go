package simtest

import (
	"cmp"
	"slices"
	"time"

	"github.com/oncegate/oncegate/idempotency"
)

// openReviews are the ids of the questions that wait for a person.
func (w *world) openReviews() []string {
	var ids []string
	for id, r := range w.check.reviews() {
		if r["state"] == string(idempotency.ReviewOpen) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// answer lets a person answer one question, with any legal answer.
func (w *world) answer(id string) {
	shown, ok, err := w.reviews.Get(w.background, id)
	if err != nil || !ok {
		w.check.broken("I8", "review %s cannot be read: %v", id, err)
		return
	}
	legal := idempotency.Resolutions[shown.Kind]
	as := legal[w.rnd.IntN(len(legal))]
	answered, err := shown.Answer(as, "rev", "because", "4711", time.Now())
	if err == nil {
		err = w.reviews.Close(w.background, shown, answered)
	}
	if err != nil {
		w.check.broken("I8", "review %s cannot be answered: %v", id, err)
		return
	}
	w.note("a person answers %s with %s", id[:8], as)
	w.faults["answered "+string(as)]++
	w.resolves = append(w.resolves, &resolve{id: id, due: time.Now().Add(time.Duration(w.rnd.IntN(60)) * time.Second)})
	slices.SortStableFunc(w.resolves, func(a, b *resolve) int { return cmp.Compare(a.id, b.id) })
}
