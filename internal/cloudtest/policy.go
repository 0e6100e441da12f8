package cloudtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Policy is one RAM policy document.
//
// What the service's pages leave open is read so that no right appears out of
// it: actions and resources are compared with regard to case, a condition on a
// key that the call does not have does not hold, and a document with anything
// that is not modelled (NotResource, Principal, other operators) is refused.
// https://www.alibabacloud.com/help/doc-detail/93739.htm
type Policy struct{ statements []statement }

type statement struct {
	deny       bool
	actions    []string
	notActions []string // in the place of actions
	resources  []string
	conditions []condition
}

// condition holds where the value of key is, or is like, one of values.
type condition struct {
	like   bool
	key    string
	values []string
}

// Access is one call as policies see it.
type Access struct {
	Action   string // ots:PutRow
	Resource string // acs:ots:cn-hangzhou:1:instance/i/table/t
	Context  map[string]string
}

// Verdict is what policies say of an access.
type Verdict string

// The three verdicts. A Deny that matches beats every Allow.
const (
	Allow        Verdict = "allow"
	ExplicitDeny Verdict = "explicit_deny"
	ImplicitDeny Verdict = "implicit_deny" // no statement matches
)

// Evaluate unites the statements of all policies.
func Evaluate(policies []Policy, a Access) Verdict {
	verdict := ImplicitDeny
	for _, p := range policies {
		for _, s := range p.statements {
			switch {
			case !s.matches(a):
			case s.deny:
				return ExplicitDeny
			default:
				verdict = Allow
			}
		}
	}
	return verdict
}

func (s statement) matches(a Access) bool {
	action := anyLike(s.actions, a.Action)
	if s.notActions != nil {
		action = !anyLike(s.notActions, a.Action)
	}
	if !action || !anyLike(s.resources, a.Resource) {
		return false
	}
	for _, c := range s.conditions {
		value, ok := a.Context[c.key]
		if !ok || (c.like && !anyLike(c.values, value)) || (!c.like && !slices.Contains(c.values, value)) {
			return false
		}
	}
	return true
}

func anyLike(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return like(p, s) })
}

// like matches * with any number of characters, / and : among them, and ? with one.
func like(pattern, s string) bool {
	p, t := []rune(pattern), []rune(s)
	i, j, star, mark := 0, 0, -1, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i, j = i+1, j+1
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// texts is a string or a list of strings.
type texts []string

func (t *texts) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

// ParsePolicy reads a document and refuses what Policy does not model.
func ParsePolicy(doc []byte) (Policy, error) {
	var wire struct {
		Version   string
		Statement []struct {
			Effect    string
			Action    texts
			NotAction texts
			Resource  texts
			Condition map[string]map[string]texts
		}
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(&wire); err != nil {
		return Policy{}, fmt.Errorf("read policy: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Policy{}, errors.New("read policy: there is more than one document")
	}
	if wire.Version != "1" || len(wire.Statement) == 0 {
		return Policy{}, errors.New(`read policy: Version must be "1", and there must be a Statement`)
	}
	var p Policy
	for i, w := range wire.Statement {
		s := statement{deny: w.Effect == "Deny", actions: w.Action, notActions: w.NotAction, resources: w.Resource}
		switch {
		case w.Effect != "Allow" && w.Effect != "Deny":
			return Policy{}, fmt.Errorf("read policy: statement %d: Effect is neither Allow nor Deny", i)
		case (len(w.Action) == 0) == (len(w.NotAction) == 0):
			return Policy{}, fmt.Errorf("read policy: statement %d: it needs either Action or NotAction", i)
		case len(w.Resource) == 0:
			return Policy{}, fmt.Errorf("read policy: statement %d: it has no Resource", i)
		}
		for _, a := range slices.Concat(w.Action, w.NotAction) {
			if service, name, ok := strings.Cut(a, ":"); a != "*" && (!ok || service == "" || name == "") {
				return Policy{}, fmt.Errorf("read policy: statement %d: %q is no action", i, a)
			}
		}
		for _, r := range w.Resource {
			if f := strings.SplitN(r, ":", 5); r != "*" && (len(f) != 5 || f[0] != "acs" || f[4] == "") {
				return Policy{}, fmt.Errorf("read policy: statement %d: %q is no resource", i, r)
			}
		}
		for operator, keys := range w.Condition {
			if operator != "StringEquals" && operator != "StringLike" {
				return Policy{}, fmt.Errorf("read policy: statement %d: the operator %q is not modelled", i, operator)
			}
			for key, values := range keys {
				if len(values) == 0 {
					return Policy{}, fmt.Errorf("read policy: statement %d: the condition on %q has no value", i, key)
				}
				s.conditions = append(s.conditions, condition{operator == "StringLike", key, values})
			}
		}
		p.statements = append(p.statements, s)
	}
	return p, nil
}
