package main

import (
	"errors"
	"testing"
)

func TestAFlowThatWasNotSeenToRunIsNotReady(t *testing.T) {
	steps := func(verdicts ...string) (all []preflightStep) {
		for i, v := range verdicts {
			all = append(all, preflightStep{Number: i + 1, Verdict: v})
		}
		return all
	}
	seen := preflightFlow{Flow: "a", Steps: steps(stepSkipped, stepPassed, stepSkipped, stepPassed, stepSkipped)}
	declared := preflightFlow{Flow: "b", Steps: steps(stepPassed, stepPassed, stepSkipped, stepSkipped, stepSkipped)}
	if err := nothingShown([]preflightFlow{seen}); err != nil {
		t.Error(err)
	}
	var exit *exitError
	if err := nothingShown([]preflightFlow{seen, declared}); !errors.As(err, &exit) || exit.code != exitPartial {
		t.Errorf("got %v", err)
	}
}
