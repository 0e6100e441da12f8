package deadletter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/messages"
)

// Prober asks a target with one read-only call: see flows.Prober for what its
// answers mean.
type Prober interface {
	Probe(ctx context.Context, ask string) (ok bool, result string, err error)
}

// Probes are what targets can be asked by. A nil one means that nothing can be
// asked, and that a person has to confirm.
type Probes struct {
	Model    func(name string) Prober
	Effects  map[string]flows.Effect // by the name that flows.yaml uses
	Function func(name string) Prober
}

// Repairs finds out whether the cause of a group of letters is repaired, and
// keeps what it found.
type Repairs struct {
	Desk     *Desk
	Evidence *EvidenceLog
	Audit    *AuditLog
	Probes   Probes
	Now      func() time.Time
}

// Look is one thing that was looked at.
type Look struct {
	Probe     string
	LetterIDs []string // that it says something about
	OK        bool
	Result    string // fixed text with codes
	NoRead    bool   // nothing can be asked: a person has to confirm
}

// DefaultSample is how many letters of a group are looked at.
const DefaultSample = 3

// Sample picks the letters of a group to look at, n of them or all for n <= 0:
// migrated ones first, since they are the ones that go on, then the oldest.
func Sample(all []Judgement, n int) []Judgement {
	picked := slices.Clone(all)
	slices.SortStableFunc(picked, func(a, b Judgement) int {
		if (a.Letter.ParentID != "") != (b.Letter.ParentID != "") {
			return map[bool]int{true: -1, false: 1}[a.Letter.ParentID != ""]
		}
		return a.Letter.FirstFailedAt.Compare(b.Letter.FirstFailedAt)
	})
	if n > 0 && len(picked) > n {
		picked = picked[:n]
	}
	return picked
}

// Errors of Look.
var (
	ErrNeedsNoProbe = messages.Errorf("letters of this code need no repair evidence")
	ErrNoRepair     = error(&messages.Error{Text: WhyPolicy})
)

// Look runs the probes that letters of one group need, and stores nothing. The
// error says that there is nothing to probe, or that a letter cannot be read.
func (r *Repairs) Look(ctx context.Context, sample []Judgement) ([]Look, error) {
	var looks []Look
	asked := map[string]int{} // what was asked already, by probe and target
	for _, j := range sample {
		probe, why := ProbeFor(j.Code, j.Letter)
		switch {
		case probe == "" && !why.IsZero():
			return nil, ErrNoRepair
		case probe == "":
			return nil, ErrNeedsNoProbe
		}
		kind, name, _ := strings.Cut(j.Target, ":")
		if perLetter(probe) || (kind == "oss" && name == "content") {
			one, err := r.letter(ctx, probe, j)
			if err != nil {
				return nil, err
			}
			looks = append(looks, one)
			continue
		}
		p, id := r.prober(j.Letter.Flow, kind, name)
		if at, done := asked[probe+" "+id]; done {
			looks[at].LetterIDs = append(looks[at].LetterIDs, j.Letter.ID)
			continue
		}
		asked[probe+" "+id] = len(looks)
		looks = append(looks, ask(ctx, probe, p, j.Letter.ID))
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	return looks, nil
}

// probeLimit is how long one call of a probe may take.
const probeLimit = 15 * time.Second

func ask(ctx context.Context, probe string, p Prober, id string) Look {
	look := Look{Probe: probe, LetterIDs: []string{id}}
	if p == nil {
		look.NoRead, look.Result = true, "nothing is known that could be asked"
		return look
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	question := flows.AskAccess
	if probe == ProbeTarget {
		question = flows.AskTarget
	}
	ok, result, err := p.Probe(ctx, question)
	if err != nil {
		look.NoRead, look.Result = true, flows.ErrNoRead.Error()
		return look
	}
	look.OK, look.Result = ok, result
	return look
}

// prober is what a target can be asked by, and what tells it from others.
func (r *Repairs) prober(flow, kind, name string) (p Prober, id string) {
	switch kind {
	case "model":
		if r.Probes.Model != nil {
			return r.Probes.Model(name), "model " + name
		}
	case "effect":
		uses := r.Desk.Flows.Uses(flow, name)
		if p, ok := r.Probes.Effects[uses].(Prober); ok {
			return p, "effect " + uses
		}
	case "oss":
		return r.Desk.Artifacts, "oss"
	case "ots":
		return table{r.Desk.Tasks}, "ots"
	case "fc":
		if r.Probes.Function != nil {
			return r.Probes.Function(name), "fc " + name
		}
	}
	return nil, kind + " " + name
}

// table asks Tablestore for a row that nobody writes.
type table struct{ tasks *idempotency.Table }

func (t table) Probe(ctx context.Context, _ string) (bool, string, error) {
	const text = "GetRow of a key that cannot exist: "
	_, ok, err := t.tasks.Get(ctx, "oncegate-probe-of-no-record")
	var call *aliyun.Error
	switch {
	case err == nil && ok:
		return false, text + "it exists", nil
	case err == nil:
		return true, text + "no row", nil
	case errors.As(err, &call) && call.Status != 0:
		return false, fmt.Sprintf("%sHTTP %d %s", text, call.Status, call.Code), nil
	default:
		return false, text + "no answer", nil
	}
}

// letter looks at the event of one letter.
func (r *Repairs) letter(ctx context.Context, probe string, j Judgement) (Look, error) {
	look := Look{Probe: probe, LetterIDs: []string{j.Letter.ID}}
	raw, err := r.Desk.RawEvent(ctx, j.Letter)
	if err != nil {
		return Look{}, err
	}
	x := r.Desk.examine(raw)
	switch {
	case probe == ProbeFlow && x.flow == nil:
		look.Result = "today's flows.yaml has no flow for it"
	case x.why != "":
		look.Result = x.why
	case probe == ProbeSchema && j.Letter.ParentID == "" && !strings.HasPrefix(j.Target, "fc:"):
		// Today's schema takes it, as it did then: somebody behind it refused.
		look.Result = "it was refused while it ran, and is still the same event: migrate it, to identity where the code was repaired"
	case perLetter(probe):
		look.OK, look.Result = true, "today's flows.yaml takes it: flow "+x.flow.Name
		if x.flow.SchemaVersion != "" {
			look.Result += ", schema version " + x.flow.SchemaVersion
		}
	default:
		look.OK, look.Result = r.content(ctx, x)
	}
	return look, nil
}

// content reads what an event refers to.
func (r *Repairs) content(ctx context.Context, x examined) (ok bool, result string) {
	const text = "GetObject of what the event names: "
	ref, has, err := x.flow.Content(x.input)
	if err != nil || !has {
		return false, "the event names no content"
	}
	body, err := r.Desk.Artifacts.ReadContent(ctx, ref.Bucket, ref.Object, ref.VersionID)
	var call *aliyun.Error
	switch {
	case errors.As(err, &call) && call.Status != 0:
		return false, fmt.Sprintf("%sHTTP %d %s", text, call.Status, call.Code)
	case err != nil:
		return false, text + "no answer"
	}
	if sum := sha256.Sum256(body); ref.SHA256 != "" && hex.EncodeToString(sum[:]) != ref.SHA256 {
		return false, text + "it is there, with other bytes than the event says"
	}
	return true, text + "it is there, as the event says"
}

// Confirm turns what nobody can be asked about into a person's word.
func Confirm(looks []Look, why string) ([]Look, error) {
	confirmed := slices.Clone(looks)
	for i, l := range confirmed {
		if !l.NoRead {
			return nil, fmt.Errorf("the target can be asked (%s): a person's word does not count in its place", l.Result)
		}
		confirmed[i] = Look{Probe: ProbePerson, LetterIDs: l.LetterIDs, OK: true, Result: "a person confirms: " + why}
	}
	return confirmed, nil
}

// Store keeps what was found about a group: the audit row first, then one row of
// evidence for each probe and answer. What says no is kept too, and voids what
// stood before. Looks that could read nothing are not evidence.
func (r *Repairs) Store(ctx context.Context, fingerprint string, looks []Look, who, why string) ([]Evidence, error) {
	now := r.Now()
	var rows []Evidence
	for _, l := range looks {
		if l.NoRead {
			continue
		}
		if n := len(l.LetterIDs); n > maxListed && !perLetter(l.Probe) {
			l.LetterIDs = l.LetterIDs[:maxListed] // the rest is the same target
		}
		i := slices.IndexFunc(rows, func(e Evidence) bool {
			return e.Probe == l.Probe && e.OK == l.OK && len(e.LetterIDs)+len(l.LetterIDs) <= maxListed
		})
		if i < 0 {
			rows = append(rows, Evidence{Fingerprint: fingerprint, Probe: l.Probe, OK: l.OK, Result: l.Result, By: who, Environment: r.Desk.Environment})
			i = len(rows) - 1
		} else if !strings.Contains(rows[i].Result, l.Result) && len(rows[i].Result) < maxResult {
			rows[i].Result += "; " + l.Result
		}
		rows[i].LetterIDs = append(rows[i].LetterIDs, l.LetterIDs...)
	}
	// What says no comes last: it is the newest word.
	slices.SortStableFunc(rows, func(a, b Evidence) int {
		return map[bool]int{true: 0, false: 1}[a.OK] - map[bool]int{true: 0, false: 1}[b.OK]
	})
	for i := range rows {
		// Ids are milliseconds: the rows of one run follow each other.
		rows[i].At = now.Add(time.Duration(i) * time.Millisecond)
		rows[i].ID = EvidenceID(fingerprint, rows[i].At, rows[i].Probe, who)
		decision := RepairRequired
		if rows[i].OK {
			decision = ReplayCandidate
		}
		err := r.Audit.Add(ctx, Audit{
			ID: AuditID(ActionRepair, rows[i].ID, who), At: rows[i].At, Action: ActionRepair, Fingerprint: fingerprint, Decision: decision,
			OperatorOrRule: who, Reason: strings.Join(slices.DeleteFunc([]string{why, rows[i].Probe + ": " + rows[i].Result}, func(s string) bool { return s == "" }), "; "),
		})
		if err == nil {
			err = r.Evidence.Add(ctx, rows[i])
		}
		if err != nil {
			return rows[:i], fmt.Errorf("store evidence: %w", err)
		}
	}
	return rows, nil
}

// maxListed bounds how many letters one row of evidence lists.
const maxListed = 1000

// maxResult bounds the result of a row that sums several looks up, in bytes.
const maxResult = 600
