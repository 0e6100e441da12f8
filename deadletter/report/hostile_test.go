package report

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
)

// attacks are values as events and operators may carry them.
var attacks = []string{
	"\x1b[31mred\x1b]0;title\x07",
	`<script>window.pwned=1</script><img src=x onerror="window.pwned=1">`,
	`"><svg onload=window.pwned=1>`,
	"javascript:window.pwned=1",
	"abc\u202etxt.exe\u2066\u200b\ufeff",
	"=HYPERLINK(\"http://192.0.2.1\")",
	"+1", "-1", "@SUM(A1)", "\t=1",
	"back`tick` | pipe \n# head\n- [x](javascript:1) ![i](http://192.0.2.1/i.png)",
	"bad\xff\xfe utf8 \x00",
	"\u3164\u115f\ufe0f",
	"</title><title>oncegate-title",
	"</style><style>*{background:url(http://192.0.2.1)}",
	strings.Repeat("x", 5000),
	strings.Repeat("\u202e", 5000),
	"{{.}} ../../../etc/passwd",
}

// attacker is a source whose every text is an attack.
type attacker struct{}

func hostile() Source { return attacker{} }

func (attacker) Letters(_ context.Context, each func(deadletter.Judgement) error) error {
	for i := range 3 * len(attacks) {
		a := attacks[i%len(attacks)]
		l := letter.Letter{
			ID: letter.ID(a, fmt.Sprint(i), "d"), EventID: a, EventSource: a, Flow: a, ConsumerVersion: a, OriginalEventID: a, Migration: a, ReplayBatchID: a, Reason: a,
			FirstFailedAt: asOf, LastFailedAt: asOf, ExpiresAt: asOf.AddDate(0, 0, 1), RawSHA256: a,
			History: []letter.Life{{ClosedAt: asOf.UnixMilli(), Code: letter.Code(a), FinalStatus: letter.FinalStatus(a), Batch: a}},
		}
		if i%3 == 0 {
			l.FinalStatus, l.ClosedBy, l.CloseReason, l.ClosedAt = letter.FinalDiscarded, a, a, asOf
		}
		j := deadletter.Judgement{Letter: l, Code: letter.Code(a), Target: a, Fingerprint: letter.Fingerprint(letter.Code(a), a), Decision: deadletter.ManualReview, Rule: messages.Text{Format: "the code is not classified"}}
		j.Record = &idempotency.Record{Status: idempotency.Status(a)}
		if err := each(j); err != nil {
			return err
		}
	}
	return nil
}

func (attacker) Plans(_ context.Context, each func(plan.Plan, *plan.Approval) error) error {
	for i, a := range attacks {
		p := plan.Plan{State: plan.State(a), StoppedBy: a, StopReason: a, Header: plan.Header{
			Version: 1, ID: a + fmt.Sprint(i), Fingerprint: letter.Fingerprint(letter.Code(a), a), Code: letter.Code(a), Target: a, Reason: a, MadeBy: a, HighImpact: []string{a}, Stages: []int64{1}, Count: 1,
		}}
		if err := each(p, &plan.Approval{PlanID: p.ID, Digest: a, Verdict: plan.Verdict(a), By: a, Reason: a}); err != nil {
			return err
		}
	}
	return nil
}

func (attacker) Items(_ context.Context, id string, each func(plan.Item) error) error {
	return each(plan.Item{Outcome: plan.OutcomeFailed, Reason: id, NewFingerprint: id, NewCode: letter.Code(id), Frozen: plan.Frozen{LetterID: id, EventID: id}})
}

func (attacker) Evidence(context.Context, string) ([]deadletter.Evidence, error) {
	var all []deadletter.Evidence
	for _, a := range attacks {
		all = append(all, deadletter.Evidence{Probe: a, Result: a, By: a, At: asOf})
	}
	return all, nil
}

func (attacker) Audit(_ context.Context, each func(deadletter.Audit) error) error {
	for i, a := range attacks {
		err := each(deadletter.Audit{ID: fmt.Sprint(i), At: asOf, Action: deadletter.Action(a), EventID: a, Fingerprint: a, Decision: deadletter.Decision(a), ReplayBatchID: a, IdempotencyResult: a, FinalStatus: a, OperatorOrRule: a, Reason: a})
		if err != nil {
			return err
		}
	}
	return nil
}

func TestHostileValuesComeOutInertAndVisible(t *testing.T) {
	f, _ := write(t, hostile(), func(o *Options) {
		o.Environment = attacks[1]
		o.Gates = func(context.Context, string) ([]GateRow, error) {
			return []GateRow{{Name: attacks[1], Reason: attacks[0]}}, nil
		}
	})
	for name, body := range f.files {
		if !plainPath.MatchString(name) {
			t.Errorf("a file is named %q", name)
		}
		s := string(body)
		if !utf8.ValidString(s) {
			t.Errorf("%s is no UTF-8", name)
		}
		for _, r := range s {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Fatalf("%s holds %U", name, r)
			}
		}
		if len(body) > maxPage {
			t.Errorf("%s has %d bytes", name, len(body))
		}
		if strings.HasSuffix(name, ".html") {
			for _, bad := range readPage(t, name, body).problems {
				t.Errorf("%s: %s", name, bad)
			}
		}
	}
	md := text(f, "summary.md")
	for _, line := range strings.Split(md, "\n") {
		outside := regexp.MustCompile("`[^`]*`").ReplaceAllString(line, "")
		if strings.ContainsAny(outside, "`<[!|") || strings.Contains(outside, "http") {
			t.Errorf("the summary holds %q", line)
		}
	}
}

var plainPath = regexp.MustCompile(`^[a-z]+(/[A-Za-z0-9_-]+)?(-[0-9]+)?\.(html|json|md)$`)

func TestVisibleShowsWhatItTakes(t *testing.T) {
	for in, want := range map[string]string{
		"evt-1":                "evt-1",
		"订单 7 é":               "订单 7 é",
		"\x1b[31m":             `\x1b[31m`,
		"a\u202eb":             `a\u{202e}b`,
		"=1+1":                 `\x3d1+1`,
		"-1":                   `\x2d1`,
		"a=b":                  "a=b",
		`\x1b`:                 `\\x1b`,
		"\xff":                 `\xff`,
		"\u3164":               `\u{3164}`,
		"a\u00a0b\n":           `a\u{a0}b\x0a`,
		strings.Repeat("é", 9): "éééééééé…",
	} {
		if got := visible(in, 8); in != strings.Repeat("é", 9) && visible(in, 64) != want || len(in) == 18 && got != want {
			t.Errorf("%q: got %s", in, visible(in, 64))
		}
	}
}

func TestACodeSpanOfMarkdownCannotBeLeft(t *testing.T) {
	for in, want := range map[string]string{"a`b|c": "`a\\x60b\\x7cc`", "": "-", "TIMEOUT": "`TIMEOUT`"} {
		if got := code(in); got != want {
			t.Errorf("%q: got %s", in, got)
		}
	}
}

func FuzzVisible(f *testing.F) {
	for _, a := range attacks {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v := visible(s, cutName)
		if !utf8.ValidString(v) || utf8.RuneCountInString(v) > cutName+1 || strings.IndexAny(v, "=+-@") == 0 {
			t.Fatalf("%q", v)
		}
		for _, r := range v {
			if r != ' ' && !unicode.IsPrint(r) {
				t.Fatalf("%q", v)
			}
		}
	})
}
