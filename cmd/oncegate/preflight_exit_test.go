package main

import (
	"errors"
	"testing"
)

func TestAFlowOfWhichNothingIsShownIsNotReady(t *testing.T) {
	seen := preflightFlow{Flow: "a", Steps: []preflightStep{{Verdict: stepSkipped}, {Verdict: stepPassed}}}
	unseen := preflightFlow{Flow: "b", Steps: []preflightStep{{Verdict: stepSkipped}, {Verdict: stepSkipped}}}
	if err := nothingShown([]preflightFlow{seen}); err != nil {
		t.Error(err)
	}
	var exit *exitError
	if err := nothingShown([]preflightFlow{seen, unseen}); !errors.As(err, &exit) || exit.code != exitPartial {
		t.Errorf("got %v", err)
	}
}
