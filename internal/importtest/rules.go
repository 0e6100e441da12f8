// Package importtest holds the rules of who may import whom, as a function over
// the import graph; its test runs them over the module.
//
//	handler <-X-> deadletter     they meet in the record, in deadletter/letter and in deadletter/plan
//	*test      -> tests, other stand-ins and cmd/oncegate
//	cmd        -> nobody
//	cloud SDKs -> internal/aliyun, cmd and stand-ins
package importtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Import is one import of one file. Paths within the module are relative to it.
type Import struct {
	From string // directory of the file: handler, deadletter/letter, cmd/oncegate
	Test bool   // the file is a _test.go file
	File string
	Path string
}

const module = "github.com/oncegate/oncegate"

// clouds are the SDKs of cloud services, which have quirks to be kept in one room.
var clouds = []string{"github.com/aliyun/", "github.com/alibabacloud-go/"}

// rule refuses an import with a reason, "" where it has nothing against it.
type rule func(Import) string

var rules = []rule{apart, pure, ignorant, standIns, commands, sdks}

// Check returns what is wrong with each import that breaks a rule.
func Check(imports []Import) []string {
	var broken []string
	for _, i := range imports {
		for _, r := range rules {
			if reason := r(i); reason != "" {
				broken = append(broken, fmt.Sprintf("%s imports %s: %s", path.Join(i.From, i.File), i.Path, reason))
			}
		}
	}
	return broken
}

func within(dir, room string) bool { return dir == room || strings.HasPrefix(dir, room+"/") }

// own is an import's path within the module; ok is false for any other.
func own(i Import) (dir string, ok bool) { return strings.CutPrefix(i.Path, module+"/") }

func standIn(dir string) bool { return slices.ContainsFunc(strings.Split(dir, "/"), isStandIn) }

func isStandIn(name string) bool { return strings.HasSuffix(name, "test") && name != "importtest" }

// apart: handler and deadletter meet in letter and plan alone.
func apart(i Import) string {
	dir, ok := own(i)
	switch {
	case !ok:
	case within(i.From, "handler") && within(dir, "deadletter") && dir != "deadletter/letter" && dir != "deadletter/plan":
		return "handler may import of deadletter the letter and the plan alone"
	case within(i.From, "deadletter") && within(dir, "handler"):
		return "deadletter never imports handler"
	}
	return ""
}

// pure: handler and deadletter take what they need from their caller.
func pure(i Import) string {
	if i.Test || standIn(i.From) || (!within(i.From, "handler") && !within(i.From, "deadletter")) {
		return ""
	}
	switch {
	case i.Path == "os" || strings.HasPrefix(i.Path, "os/") || i.Path == "syscall":
		return "handler and deadletter do not look at their process"
	case cloud(i.Path) || strings.HasPrefix(i.Path, "github.com/cloudevents/") || strings.HasPrefix(i.Path, "github.com/sashabaranov/"):
		return "handler and deadletter import no SDK"
	}
	return ""
}

// ignorant: idempotency knows neither events nor artifacts.
func ignorant(i Import) string {
	dir, ok := own(i)
	if !ok || i.Test || !within(i.From, "idempotency") {
		return ""
	}
	for _, room := range []string{"events", "artifacts", "flows", "handler", "deadletter"} {
		if within(dir, room) {
			return "idempotency does not know " + room
		}
	}
	return ""
}

func standIns(i Import) string {
	dir, ok := own(i)
	if !ok || !standIn(dir) || i.Test || standIn(i.From) || within(i.From, "cmd/oncegate") {
		return ""
	}
	return "stand-ins are for tests, other stand-ins and cmd/oncegate"
}

func commands(i Import) string {
	if dir, ok := own(i); ok && within(dir, "cmd") && !within(i.From, dir) {
		return "nothing imports cmd"
	}
	return ""
}

func sdks(i Import) string {
	if !cloud(i.Path) || i.Test || standIn(i.From) || i.From == "internal/aliyun" || within(i.From, "cmd") {
		return ""
	}
	return "cloud SDKs belong to internal/aliyun, cmd and stand-ins"
}

func cloud(p string) bool {
	return slices.ContainsFunc(clouds, func(prefix string) bool { return strings.HasPrefix(p, prefix) })
}
