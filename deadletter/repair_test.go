package deadletter

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/internal/messages"
)

func TestEachCodeNeedsItsProbe(t *testing.T) {
	inFlow, flowless, child := letter.Letter{Flow: "f"}, letter.Letter{}, letter.Letter{Flow: "f", ParentID: "p"}
	none := messages.Text{}
	for _, c := range []struct {
		code  letter.Code
		l     letter.Letter
		probe string
		why   messages.Text
	}{
		{letter.CodeAccessDenied, inFlow, ProbeAccess, none},
		{letter.CodeTargetNotFound, inFlow, ProbeTarget, none},
		{letter.CodeTargetNotFound, flowless, ProbeFlow, none},
		{letter.CodeInvalidSchema, inFlow, ProbeSchema, none},
		{letter.CodePolicyRejected, inFlow, "", WhyPolicy},
		{letter.CodePolicyRejected, child, ProbeSchema, none},
		{letter.CodeThrottled, inFlow, "", none},
		{letter.CodeTimeout, inFlow, "", none},
		{letter.CodeUpstream5xx, inFlow, "", none},
		{letter.CodeParked, inFlow, "", none},
	} {
		if probe, why := ProbeFor(c.code, c.l); probe != c.probe || why.String() != c.why.String() {
			t.Errorf("%s %+v: %q %q", c.code, c.l, probe, why)
		}
	}
	for _, code := range []letter.Code{letter.CodeAccessDenied, letter.CodeTargetNotFound, letter.CodeInvalidSchema, letter.CodePolicyRejected} {
		if code.Class() != letter.ClassPermanent {
			t.Errorf("%s is not permanent", code)
		}
		if e, why := EvidenceFor(code, nil, inFlow, time.Time{}); e != nil || why.IsZero() {
			t.Errorf("%s without evidence may be replayed", code)
		}
	}
}

// S51: a permanent code without valid evidence is refused.
func TestEvidenceHoldsUntilSomethingSpeaksAgainstIt(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 8, 4, 10, minute, 0, 0, time.UTC) }
	yes := func(probe string, minute int, ids ...string) Evidence {
		return Evidence{Fingerprint: "fp", Probe: probe, OK: true, At: at(minute), LetterIDs: ids, Environment: "prod"}
	}
	no := func(probe string, minute int, ids ...string) Evidence {
		e := yes(probe, minute, ids...)
		e.OK = false
		return e
	}
	never := time.Time{}
	for name, c := range map[string]struct {
		code    letter.Code
		all     []Evidence
		attempt time.Time
		at      int // minute of the evidence that holds, 0 for none
		why     messages.Text
	}{
		"none":                                   {letter.CodeAccessDenied, nil, never, 0, WhyNoEvidence},
		"a yes":                                  {letter.CodeAccessDenied, []Evidence{yes(ProbeAccess, 1)}, never, 1, messages.Text{}},
		"the newest of two":                      {letter.CodeAccessDenied, []Evidence{yes(ProbeAccess, 2), yes(ProbeAccess, 1)}, never, 2, messages.Text{}},
		"a no after it":                          {letter.CodeAccessDenied, []Evidence{yes(ProbeAccess, 1), no(ProbeAccess, 2)}, never, 0, WhyProbeFailed},
		"a no before it":                         {letter.CodeAccessDenied, []Evidence{no(ProbeAccess, 1), yes(ProbeAccess, 2)}, never, 2, messages.Text{}},
		"a no at the same time":                  {letter.CodeAccessDenied, []Evidence{no(ProbeAccess, 1), yes(ProbeAccess, 1)}, never, 0, WhyProbeFailed},
		"a failed replay after it":               {letter.CodeAccessDenied, []Evidence{yes(ProbeAccess, 1), no(ProbeReplay, 2)}, never, 0, WhyReplayed},
		"a failed replay before it":              {letter.CodeAccessDenied, []Evidence{no(ProbeReplay, 1), yes(ProbeAccess, 2)}, never, 2, messages.Text{}},
		"a failed replay of another letter":      {letter.CodeInvalidSchema, []Evidence{yes(ProbeSchema, 1, "me"), no(ProbeReplay, 2, "other")}, never, 0, WhyReplayed},
		"an attempt after it":                    {letter.CodeAccessDenied, []Evidence{yes(ProbeAccess, 1)}, at(2), 0, WhyAttempt},
		"a no at the same time, read after it":   {letter.CodeAccessDenied, []Evidence{yes(ProbeAccess, 1), no(ProbeAccess, 1)}, never, 0, WhyProbeFailed},
		"an attempt at the same time":            {letter.CodeAccessDenied, []Evidence{yes(ProbeAccess, 1)}, at(1), 0, WhyAttempt},
		"an attempt before it":                   {letter.CodeAccessDenied, []Evidence{yes(ProbeAccess, 2)}, at(1), 2, messages.Text{}},
		"another probe":                          {letter.CodeAccessDenied, []Evidence{yes(ProbeTarget, 1)}, never, 0, WhyNoEvidence},
		"a person's word":                        {letter.CodeAccessDenied, []Evidence{yes(ProbePerson, 1)}, never, 1, messages.Text{}},
		"a person's word about a target":         {letter.CodeTargetNotFound, []Evidence{yes(ProbePerson, 1)}, never, 1, messages.Text{}},
		"a person's word about a schema":         {letter.CodeInvalidSchema, []Evidence{yes(ProbePerson, 1, "me")}, never, 0, WhyNoEvidence},
		"another environment's":                  {letter.CodeAccessDenied, []Evidence{{Probe: ProbeAccess, OK: true, At: at(1), Environment: "test"}}, never, 0, WhyNoEvidence},
		"a schema probe of this letter":          {letter.CodeInvalidSchema, []Evidence{yes(ProbeSchema, 1, "you", "me")}, never, 1, messages.Text{}},
		"a schema probe of another letter":       {letter.CodeInvalidSchema, []Evidence{yes(ProbeSchema, 1, "you")}, never, 0, WhyNotLooked},
		"a later no about another letter":        {letter.CodeInvalidSchema, []Evidence{yes(ProbeSchema, 1, "me"), no(ProbeSchema, 2, "you")}, never, 1, messages.Text{}},
		"a later no about this letter":           {letter.CodeInvalidSchema, []Evidence{yes(ProbeSchema, 1, "me"), no(ProbeSchema, 2, "me")}, never, 0, WhyProbeFailed},
		"a code that needs none":                 {letter.CodeTimeout, []Evidence{no(ProbeReplay, 1)}, at(2), 0, messages.Text{}},
		"a throttled one":                        {letter.CodeThrottled, nil, at(2), 0, messages.Text{}},
		"a refusal by policy, whatever is there": {letter.CodePolicyRejected, []Evidence{yes(ProbePerson, 1), yes(ProbeSchema, 1, "me")}, never, 0, WhyPolicy},
	} {
		t.Run(name, func(t *testing.T) {
			e, why := EvidenceFor(c.code, c.all, letter.Letter{ID: "me", Flow: "f", Environment: "prod"}, c.attempt)
			if why.String() != c.why.String() || (e != nil) != (c.at != 0) || (e != nil && !e.At.Equal(at(c.at))) {
				t.Errorf("got %+v, %q", e, why)
			}
		})
	}
}
