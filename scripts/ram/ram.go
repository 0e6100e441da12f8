// Package ram holds the RAM policies of oncegate's roles, one document a role
// with placeholders, as they are attached to real identities and as the
// stand-ins enforce them in tests and on the local cloud.
//
//	${region} ${account} ${instance} ${bucket} ${function} ${content} ${bus}
package ram

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Role is one cloud identity: what it may do is in its document alone.
type Role string

// The roles. Operator and Approver are the preset for one person.
const (
	Function Role = "function" // the function that handles events
	Intake   Role = "intake"   // the function that takes dead letters in
	Reviewer Role = "reviewer" // answers reviews; sees rows and no payload
	Repairer Role = "repairer" // probes, reclassifies and migrates
	Replayer Role = "replayer" // makes plans and sends approved ones
	Approver Role = "approver" // says yes or no to a plan
	Deployer Role = "deployer" // makes tables, bucket and functions; sees no data
	Cleaner  Role = "cleaner"  // removes what is over; writes nothing but the audit, reads no payload
	Operator Role = "operator" // reviewer, repairer and replayer in one
	// Publisher is for producers: it puts events on the bus, and nothing else.
	Publisher Role = "publisher"
)

// Roles are all of them.
var Roles = []Role{Function, Intake, Reviewer, Repairer, Replayer, Approver, Deployer, Cleaner, Operator, Publisher}

// Known reports whether there is a document for the role.
func (r Role) Known() bool { return slices.Contains(Roles, r) }

// RoleName is what the role is called in RAM.
func (r Role) RoleName() string { return "oncegate-" + string(r) }

// Values are put in the place of the placeholders.
type Values struct {
	Region   string // cn-hangzhou
	Account  string // number of the account
	Instance string // of Tablestore, in lower case
	Bucket   string
	Function string // that handles events
	Content  string // objects that events refer to, as bucket/prefix*; "" is <Bucket>/content/*
	Bus      string // that events are published on; may be "" for documents that name none
}

//go:embed *.json
var documents embed.FS

var (
	plainValue   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)
	contentValue = regexp.MustCompile(`^[a-z0-9][a-z0-9-]+/[A-Za-z0-9/._-]*\*?$`)
)

// Document is a role's policy for these values, without white space. A value
// that is missing, or that could widen a resource, is an error.
func Document(role Role, v Values) ([]byte, error) {
	if !role.Known() {
		return nil, fmt.Errorf("render policy: there is no role %q", role)
	}
	if v.Content == "" {
		v.Content = v.Bucket + "/content/*"
	}
	pairs := []string{"${content}", v.Content}
	if !contentValue.MatchString(v.Content) {
		return nil, fmt.Errorf("render policy: content must be a bucket and a prefix such as bucket/content/*")
	}
	if v.Bus != "" {
		if !plainValue.MatchString(v.Bus) {
			return nil, fmt.Errorf("render policy: bus must be letters, digits, - and _")
		}
		pairs = append(pairs, "${bus}", v.Bus)
	}
	for _, p := range []struct{ name, value string }{
		{"region", v.Region}, {"account", v.Account}, {"instance", v.Instance}, {"bucket", v.Bucket}, {"function", v.Function},
	} {
		if !plainValue.MatchString(p.value) {
			return nil, fmt.Errorf("render policy: %s must be letters, digits, - and _", p.name)
		}
		pairs = append(pairs, "${"+p.name+"}", p.value)
	}
	raw, err := documents.ReadFile(string(role) + ".json")
	if err != nil {
		return nil, fmt.Errorf("render policy: %w", err)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(strings.NewReplacer(pairs...).Replace(string(raw)))); err != nil {
		return nil, fmt.Errorf("render policy of %s: %w", role, err)
	}
	if i := strings.Index(out.String(), "${"); i >= 0 {
		return nil, fmt.Errorf("render policy of %s: a placeholder is not known", role)
	}
	return out.Bytes(), nil
}
