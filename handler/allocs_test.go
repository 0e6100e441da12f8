package handler

import (
	"testing"

	"github.com/oncegate/oncegate/idempotency"
)

// mostAllocations is what thinking about an event may allocate, on any machine.
// Of an event's size it must not depend: nothing is built for what is only hashed.
var mostAllocations = map[string]float64{
	"2KB of text": 53, "2KB of members": 54, "256KB of text": 54, "256KB of members": 60,
}

func TestThinkingAllocatesNoMoreThanItDid(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates too")
	}
	h := thinker(t)
	for name, raw := range thoughts() {
		got := testing.AllocsPerRun(20, func() {
			if answer, err := h.think(raw); answer != idempotency.AnswerDuplicate || err != nil {
				t.Fatal(answer, err)
			}
		})
		if most := mostAllocations[name]; got > most {
			t.Errorf("%s: %.0f allocations, at most %.0f are meant to be", name, got, most)
		}
	}
}
