package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/flows/modeltest"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// repairs probes the stand-ins by the real clients.
func (w *world) repairs(model *modeltest.Server, targets *targettest.Server) *Repairs {
	return &Repairs{
		Desk: w.desk, Evidence: NewEvidenceLog(w.store), Audit: NewAuditLog(w.store), Now: w.desk.Now,
		Probes: Probes{
			Model: func(name string) Prober {
				return flows.NewModel(flows.ModelOptions{BaseURL: model.Endpoint(), Name: name, APIKey: "k", Transport: model.Transport()})
			},
			Effects: flows.Effects(flows.Tools{
				Records:   flows.Target{Name: "records", URL: targets.Endpoint() + "/records"},
				Robot:     flows.Target{Name: "robot", URL: targets.Endpoint() + "/robot"},
				Drafts:    w.desk.Artifacts,
				Transport: targets.Transport(),
			}),
		},
	}
}

func (w *world) standIns() (*modeltest.Server, *targettest.Server) {
	w.t.Helper()
	targets, err := targettest.New(targettest.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { targets.Close() })
	return modeltest.New(modeltest.Options{}), targets
}

// judgedAs is a letter of a code and a target.
func (w *world) judgedAs(id string, code letter.Code, target string) Judgement {
	w.t.Helper()
	return w.ingest(`{"event_id":"` + id + `","payload":{"number":"` + id + `"},"error_code":"` + string(code) + `","target":"` + target + `","flow":"order"}`)[0]
}

func TestEachTargetIsProbedWhereItIs(t *testing.T) {
	deny := func(op string, status int, code string) cloudtest.Fault {
		return cloudtest.Fault{Op: op, Kind: cloudtest.Status, Status: status, Code: code, Times: -1}
	}
	for _, c := range []struct {
		target string
		fault  cloudtest.Fault // that makes it say no
		no     string
	}{
		{"model:qwen", deny("GetModel", 403, "AccessDenied"), "HTTP 403"},
		{"effect:records", deny("FindRecord", 403, ""), "HTTP 403"},
		{"effect:artifact.save", deny("GetObject", 403, "AccessDenied"), "AccessDenied"},
		{"oss:", deny("GetObject", 403, "AccessDenied"), "AccessDenied"},
		{"ots:", deny("GetRow", 403, "OTSNoPermissionAccess"), "OTSNoPermissionAccess"},
	} {
		for _, code := range []letter.Code{letter.CodeAccessDenied, letter.CodeTargetNotFound} {
			t.Run(string(code)+" "+c.target, func(t *testing.T) {
				w := newWorld(t)
				model, targets := w.standIns()
				r := w.repairs(model, targets)
				sample := []Judgement{w.judgedAs("1", code, c.target), w.judgedAs("2", code, c.target)}
				looks, err := r.Look(t.Context(), sample)
				if err != nil || len(looks) != 1 || !looks[0].OK || looks[0].Probe != map[letter.Code]string{letter.CodeAccessDenied: ProbeAccess, letter.CodeTargetNotFound: ProbeTarget}[code] || len(looks[0].LetterIDs) != 2 {
					t.Fatalf("got %+v %v", looks, err)
				}
				for _, f := range []*cloudtest.Faults{model.Faults, targets.Faults, w.oss.Faults, w.ots.Faults} {
					f.Add(c.fault)
				}
				looks, err = r.Look(t.Context(), sample)
				if err != nil || len(looks) != 1 || looks[0].OK || !strings.Contains(looks[0].Result, c.no) {
					t.Errorf("refused: %+v %v", looks, err)
				}
			})
		}
	}
	w := newWorld(t)
	r := w.repairs(w.standIns())
	for _, target := range []string{"effect:robot", "effect:nope", "fc:worker", "what"} {
		looks, err := r.Look(t.Context(), []Judgement{w.judgedAs("1", letter.CodeAccessDenied, target)})
		if err != nil || len(looks) != 1 || !looks[0].NoRead || looks[0].OK {
			t.Errorf("%s: %+v %v", target, looks, err)
		}
		if rows, err := r.Store(t.Context(), "fp", looks, "amy", ""); err != nil || len(rows) != 0 {
			t.Errorf("%s: nothing read is evidence: %+v %v", target, rows, err)
		}
		confirmed, err := Confirm(looks, "asked its owner")
		if err != nil || !confirmed[0].OK || confirmed[0].Probe != ProbePerson || confirmed[0].Result != "a person confirms: asked its owner" {
			t.Errorf("%s: %+v %v", target, confirmed, err)
		}
	}
	looks, err := r.Look(t.Context(), []Judgement{w.judgedAs("1", letter.CodeAccessDenied, "oss:")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Confirm(looks, "trust me"); err == nil {
		t.Error("a person's word counts where a read shows it")
	}
	for code, want := range map[letter.Code]error{letter.CodeTimeout: ErrNeedsNoProbe, letter.CodeThrottled: ErrNeedsNoProbe, letter.CodePolicyRejected: ErrNoRepair} {
		if _, err := r.Look(t.Context(), []Judgement{w.judgedAs("1", code, "oss:")}); !errors.Is(err, want) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func TestASchemaIsProbedLetterByLetter(t *testing.T) {
	w := newWorld(t)
	r := w.repairs(w.standIns())
	left := w.invalid(orderEvent("e1", "1", `"5.00"`))
	parent := w.invalid(orderEvent("e2", "2", `"6.00"`))
	w.now = w.now.Add(time.Minute)
	child, _, err := w.migrator().Migrate(t.Context(), parent, "2", "amy", "why")
	if err != nil {
		t.Fatal(err)
	}
	var group []Judgement
	for _, l := range w.letters() {
		if j, err := w.desk.Judge(t.Context(), l); err == nil && l.Open() {
			group = append(group, j)
		}
	}
	sample := Sample(group, DefaultSample)
	if len(sample) != 2 || sample[0].Letter.ID != child.ID || len(Sample(group, 1)) != 1 || len(Sample(group, 0)) != 2 {
		t.Fatalf("sample %+v", sample)
	}
	looks, err := r.Look(t.Context(), sample)
	if err != nil || len(looks) != 2 || !looks[0].OK || looks[1].OK || !strings.Contains(looks[1].Result, "/amount: type") || !strings.Contains(looks[0].Result, "schema version 2") {
		t.Fatalf("%+v %v", looks, err)
	}
	if rows, err := r.Store(t.Context(), child.Fingerprint, looks, "amy", ""); err != nil || len(rows) != 2 {
		t.Fatalf("%+v %v", rows, err)
	}
	all, err := r.Evidence.Of(t.Context(), child.Fingerprint)
	if err != nil || len(all) != 2 || all[0].By != "amy" || all[0].ID == all[1].ID {
		t.Fatalf("%+v %v", all, err)
	}
	if e, why := EvidenceFor(letter.CodeInvalidSchema, all, child, time.Time{}); !why.IsZero() || !slices.Equal(e.LetterIDs, []string{child.ID}) {
		t.Errorf("the child: %+v %q", e, why)
	}
	if _, why := EvidenceFor(letter.CodeInvalidSchema, all, left, time.Time{}); why.String() != WhyProbeFailed.String() {
		t.Errorf("the letter that stays invalid: %q", why)
	}
	rows, _, err := r.Audit.List(t.Context(), "", "", 100)
	n := 0
	for _, a := range rows {
		if a.Action == ActionRepair && a.OperatorOrRule == "amy" && a.Fingerprint == child.Fingerprint && a.Reason != "" {
			n++
		}
	}
	if err != nil || n != 2 {
		t.Errorf("%d audit rows, %v", n, err)
	}
}

func TestAnEventThatWasRefusedWhileItRanNeedsAMigration(t *testing.T) {
	w := newWorld(t)
	r := w.repairs(w.standIns())
	event := orderEvent("e1", "1", "5")
	w.record(event, failed(idempotency.CodeInvalidRequest))
	j := w.ingest(event)[0]
	looks, err := r.Look(t.Context(), []Judgement{j})
	if err != nil || looks[0].OK || !strings.Contains(looks[0].Result, "migrate it") {
		t.Errorf("the same event: %+v %v", looks, err)
	}
	child, _, err := w.migrator().Migrate(t.Context(), j.Letter, flows.Identity, "amy", "the code was repaired")
	if err != nil {
		t.Fatal(err)
	}
	if j, err = w.desk.Judge(t.Context(), child); err != nil {
		t.Fatal(err)
	}
	if looks, err := r.Look(t.Context(), []Judgement{j}); err != nil || !looks[0].OK {
		t.Errorf("its child: %+v %v", looks, err)
	}
}

func TestEvidenceAboutManyLettersIsSplit(t *testing.T) {
	w := newWorld(t)
	r := w.repairs(w.standIns())
	var looks []Look
	for i := range maxListed + 1 {
		looks = append(looks, Look{Probe: ProbeSchema, LetterIDs: []string{fmt.Sprint(i)}, OK: true, Result: fmt.Sprint("result ", i)})
	}
	many := make([]string, 5*maxListed)
	looks = append(looks, Look{Probe: ProbeAccess, LetterIDs: many, OK: true, Result: "r"})
	rows, err := r.Store(t.Context(), "fp", looks, "amy", "")
	if err != nil || len(rows) != 3 || len(rows[0].LetterIDs) != maxListed || len(rows[1].LetterIDs) != 1 || len(rows[2].LetterIDs) != maxListed || len(rows[0].Result) > 2*maxResult {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	all, err := r.Evidence.Of(t.Context(), "fp")
	if err != nil || len(all) != 3 {
		t.Fatal(len(all), err)
	}
	if _, why := EvidenceFor(letter.CodeInvalidSchema, all, letter.Letter{ID: fmt.Sprint(maxListed), Environment: "prod", Flow: "f"}, time.Time{}); !why.IsZero() {
		t.Error(why)
	}
}

func TestALetterWithoutAFlowIsProbedByTodaysRegister(t *testing.T) {
	w := newWorld(t)
	r := w.repairs(w.standIns())
	raw := strings.Replace(orderEvent("e1", "1", "5"), `"type":"order"`, `"type":"invoice"`, 1)
	j := w.ingest(raw)[0]
	if err := w.desk.Reclassify(t.Context(), j.Letter.ID, letter.CodeTargetNotFound, "amy", "no flow"); err != nil {
		t.Fatal(err)
	}
	look := func() Look {
		j, err := w.desk.Judge(t.Context(), w.letter(j.Letter.ID))
		if err != nil {
			t.Fatal(err)
		}
		looks, err := r.Look(t.Context(), []Judgement{j})
		if err != nil || len(looks) != 1 || looks[0].Probe != ProbeFlow {
			t.Fatalf("%+v %v", looks, err)
		}
		return looks[0]
	}
	if l := look(); l.OK || !strings.Contains(l.Result, "has no flow for it") {
		t.Errorf("%+v", l)
	}
	set, err := flows.Load([]byte(strings.NewReplacer("type: order", "type: invoice", `"type":"order"`, `"type":"invoice"`).Replace(deskFlows)), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.desk.Flows = set
	if l := look(); !l.OK {
		t.Errorf("%+v", l)
	}
}

func TestEvidenceIsWrittenOnceAndNotTakenForAnother(t *testing.T) {
	w := newWorld(t)
	log := NewEvidenceLog(w.store)
	e := Evidence{ID: EvidenceID("fp", w.now, "p"), Fingerprint: "fp", Probe: ProbeAccess, OK: true, Result: "HTTP 200", At: w.now, By: "amy"}
	w.ots.Faults.Add(cloudtest.Fault{Op: "PutRow", Phase: cloudtest.After, Kind: cloudtest.Drop})
	for range 2 {
		if err := log.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []func(*Evidence){func(e *Evidence) { e.By = "bob" }, func(e *Evidence) { e.Result = "HTTP 403" }} {
		another := e
		other(&another)
		if err := log.Add(t.Context(), another); !errors.Is(err, idempotency.ErrUnavailable) {
			t.Errorf("other evidence: %v", err)
		}
	}
}

func TestEvidenceIsNotKeptWithoutItsAuditRow(t *testing.T) {
	w := newWorld(t)
	r := w.repairs(w.standIns())
	looks := []Look{{Probe: ProbeAccess, LetterIDs: []string{"l"}, OK: true, Result: "r"}}
	w.ots.Faults.Add(cloudtest.Fault{Op: "PutRow", Target: AuditTable.Name, Kind: cloudtest.Drop, Times: -1})
	if _, err := r.Store(t.Context(), "fp", looks, "amy", ""); !errors.Is(err, idempotency.ErrUnavailable) {
		t.Error(err)
	}
	if len(w.ots.Rows(EvidenceTable.Name)) != 0 {
		t.Error("evidence without an audit row")
	}
}

func TestAProbeThatIsInterruptedIsNoEvidence(t *testing.T) {
	w := newWorld(t)
	r := w.repairs(w.standIns())
	j := w.judgedAs("1", letter.CodeAccessDenied, "model:qwen")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if looks, err := r.Look(ctx, []Judgement{j}); err == nil {
		t.Errorf("%+v", looks)
	}
}

var contentFlows = strings.NewReplacer("    processor: record", "    content: {object: $.data.object, sha256: $.data.sha256}\n    processor: record",
	`"data":{"number":"1"}`, `"data":{"number":"1","object":"o","sha256":"`+strings.Repeat("a", 64)+`"}`).Replace(deskFlows)

func TestContentThatAnEventRefersToIsReadLetterByLetter(t *testing.T) {
	w := newWorld(t)
	set, err := flows.Load([]byte(contentFlows), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.desk.Flows = set
	r := w.repairs(w.standIns())
	const sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of hello
	var sample []Judgement
	for id, object := range map[string]string{"1": "content/hello", "2": "content/other", "3": "content/none"} {
		sample = append(sample, w.ingest(`{"event_id":"` + id + `","payload":{"number":"` + id + `","object":"` + object + `","sha256":"` + sum + `"},"error_code":"TARGET_NOT_FOUND","target":"oss:content","flow":"order"}`)[0])
	}
	for name, body := range map[string]string{"content/hello": "hello", "content/other": "other"} {
		if _, err := w.bucket.Put(t.Context(), name, aliyun.Object{Body: []byte(body), ContentType: "text/plain"}); err != nil {
			t.Fatal(err)
		}
	}
	looks, err := r.Look(t.Context(), sample)
	if err != nil || len(looks) != 3 {
		t.Fatalf("%+v %v", looks, err)
	}
	want := map[string]string{"1": "as the event says", "2": "other bytes", "3": "NoSuchKey"}
	for i, l := range looks {
		id := sample[i].Letter.EventID
		if l.OK != (id == "1") || !strings.Contains(l.Result, want[id]) {
			t.Errorf("%s: %+v", id, l)
		}
	}
}
