package main

import (
	"context"
	"strings"
	"testing"
)

func TestAReplayRunsAsTheIdentityThatTheCommandBeganWith(t *testing.T) {
	a := &app{getenv: func(string) string { return "" }, target: targetLocal}
	if err := a.permission("oncegate-operator/local")(context.Background()); err != nil {
		t.Error(err)
	}
	if err := a.permission("oncegate-replayer/local")(context.Background()); err == nil || !strings.Contains(err.Error(), "the identity is oncegate-operator/local now") {
		t.Errorf("got %v", err)
	}
}
