package deadletter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

const deskFlows = `
schema_version: 1
flows:
  - name: order
    owner: o
    number_owner: p
    match: {type: order, source: shop}
    key: {number: {path: $.data.number}, operation: {const: order}}
    processor: record
    processor_version: "1"
    schema_version: "2"
    data_schema: {properties: {amount: {type: number}}}
    sample: '{"specversion":"1.0","id":"e","source":"shop","type":"order","aliyuneventbusname":"prod","data":{"number":"1"}}'
`

type world struct {
	t       testing.TB
	cred    cloudtest.Credential
	desk    *Desk
	oss     *osstest.Server
	ots     *otstest.Server
	store   *aliyun.Tablestore
	bucket  *aliyun.Bucket
	options aliyun.Options
	now     time.Time
}

func newWorld(t *testing.T) *world { t.Helper(); return newWorldOf(t) }

func newWorldOf(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, now: time.Now().Truncate(time.Millisecond)}
	clock := func() time.Time { return w.now }
	creds := new(cloudtest.Credentials)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	w.ots, err = otstest.New(otstest.Options{Credentials: creds})
	must(err)
	w.oss, err = osstest.New(osstest.Options{Credentials: creds})
	must(err)
	c := creds.Issue(time.Time{})
	w.cred = c
	options := aliyun.Options{
		Credentials: func(context.Context) (aliyun.Credentials, error) {
			return aliyun.Credentials{AccessKeyID: c.AccessKeyID, AccessKeySecret: c.AccessKeySecret, SecurityToken: c.SecurityToken}, nil
		},
		Transport: w.ots.Transport(), OSSTransport: w.oss.Transport(),
	}
	store, err := aliyun.NewTablestore("http://tables", "oncegate", options)
	must(err)
	w.store, w.options = store, options
	for _, table := range []aliyun.Table{
		idempotency.TaskTable, idempotency.ReviewTable, letter.LetterTable, plan.PlanTable, plan.ItemTable, plan.ApprovalTable, EvidenceTable, AuditTable,
	} {
		must(store.CreateTable(t.Context(), table))
	}
	bucket, err := aliyun.NewBucket("http://127.0.0.1", "letters", options)
	must(err)
	w.bucket = bucket
	_, err = bucket.Create(t.Context())
	must(err)
	set, err := flows.Load([]byte(deskFlows), nil)
	must(err)
	w.desk = &Desk{
		Flows: set, Tasks: idempotency.NewTable(store, idempotency.DefaultPolicy()), Reviews: idempotency.NewReviews(store),
		Letters: letter.NewTable(store), Artifacts: artifacts.NewStore(bucket, "AES256"), Environment: "prod",
		Target: "fc:worker", Retention: time.Hour, Now: clock,
	}
	return w
}

func orderEvent(id, number, amount string) string {
	return `{"specversion":"1.0","id":"` + id + `","source":"shop","type":"order","aliyuneventbusname":"prod","data":{"number":"` + number + `","amount":` + amount + `}}`
}

// record writes a record of an event as a run would have left it.
func (w *world) record(event string, end func(idempotency.Policy, idempotency.Record) (idempotency.Record, error)) {
	w.t.Helper()
	l, _, unreadable := w.desk.identify(Split([]byte(event))[0], "")
	if unreadable != "" {
		w.t.Fatal(unreadable)
	}
	claimed, err := w.desk.Tasks.Claim(w.t.Context(), idempotency.Claim{
		Key: idempotency.Key{Hex: l.Key, Canonical: "{}"}, InputDigest: l.InputDigest, Owner: "owner", Now: w.now, Budget: 1, Flow: "order", Target: "fc:worker",
	}, false)
	if err != nil || claimed.Answer != idempotency.AnswerRun {
		w.t.Fatal(claimed.Answer, err)
	}
	next, err := end(idempotency.DefaultPolicy(), claimed.Record)
	if err == nil {
		_, err = w.desk.Tasks.Settle(w.t.Context(), claimed.Record, next)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) ingest(message string) []Judgement {
	w.t.Helper()
	var all []Judgement
	for _, item := range Split([]byte(message)) {
		j, err := w.desk.Ingest(w.t.Context(), item, "")
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, j)
	}
	return all
}

func succeeded(p idempotency.Policy, r idempotency.Record) (idempotency.Record, error) {
	return p.Complete(r, r.Owner, r.UpdatedAt, idempotency.Ref{Object: "o", SHA256: "s"})
}

func failed(code idempotency.Code) func(idempotency.Policy, idempotency.Record) (idempotency.Record, error) {
	return func(p idempotency.Policy, r idempotency.Record) (idempotency.Record, error) {
		return p.Fail(r, r.Owner, r.UpdatedAt, idempotency.Failure{Code: code, Target: "model:m"})
	}
}

func TestADeadLetterIsDecidedByTheRecordAsItIs(t *testing.T) {
	w := newWorld(t)
	lost := orderEvent("e1", "1", "5")
	j := w.ingest(lost)[0]
	if j.Code != letter.CodeUndelivered || j.Decision != ManualReview || j.Target != "fc:worker" || j.Record != nil {
		t.Errorf("never delivered: %+v", j)
	}
	w.record(lost, failed(idempotency.CodeRateLimited))
	if j, err := w.desk.Judge(t.Context(), j.Letter); err != nil || j.Code != letter.CodeThrottled || j.Target != "model:m" ||
		j.Decision != ReplayCandidate || j.Fingerprint != letter.Fingerprint(letter.CodeThrottled, "model:m") {
		t.Errorf("failed meanwhile: %+v %v", j, err)
	}
	if j := w.ingest(orderEvent("e2", "1", "500"))[0]; j.Decision != ManualReview || j.Code != letter.CodeTimeout {
		t.Errorf("another input of the same business: %+v", j)
	}
	refused := orderEvent("e3", "3", "5")
	w.record(refused, failed(idempotency.CodePermissionDenied))
	if j := w.ingest(refused)[0]; j.Code != letter.CodeAccessDenied || j.Decision != RepairRequired {
		t.Errorf("refused: %+v", j)
	}
}

func TestADeadLetterWhoseBusinessIsDoneIsClosedAtOnce(t *testing.T) {
	w := newWorld(t)
	done := orderEvent("e1", "1", "5")
	w.record(done, succeeded)
	j := w.ingest("[" + orderEvent("e9", "1", "5.0") + "]")[0]
	stored, ok, err := w.desk.Letters.Get(t.Context(), j.Letter.ID)
	if err != nil || !ok || stored.FinalStatus != letter.FinalSkippedCompleted || stored.ClosedBy != "intake" || j.Decision != SkipCompleted {
		t.Errorf("got %+v %v %v", stored, ok, err)
	}
}

func TestRawBytesAreKeptAsTheyCame(t *testing.T) {
	w := newWorld(t)
	for _, raw := range []string{orderEvent("e1", "1", "5.00"), "junk", `{"half":`, orderEvent("e4", "", "1")} {
		j := w.ingest(raw)[0]
		sum := sha256.Sum256([]byte(raw))
		ref, err := j.Letter.Raw()
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, o := range w.oss.Objects("letters") {
			if o.Key == ref.Object && o.VersionID == ref.VersionID {
				found = string(o.Body) == raw && o.Tags["class"] == "letter" && o.SSE == "AES256"
			}
		}
		if !found || j.Letter.RawSHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: %+v", raw, j.Letter)
		}
	}
}

func TestLettersTakenInAreSealedWhereAKeyIsSet(t *testing.T) {
	w := newWorld(t)
	before := orderEvent("e0", "1", "13800001111")
	first := w.ingest(before)[0].Letter
	key, err := artifacts.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	w.desk.Artifacts = w.desk.Artifacts.Sealing(key.Public())
	raw := orderEvent("e1", "1", "13800001112")
	sealed := w.ingest(raw)[0].Letter
	for _, o := range w.oss.Objects("letters") {
		if strings.Contains(string(o.Body), "13800001112") {
			t.Errorf("%s holds the number in clear", o.Key)
		}
	}
	for want, l := range map[string]letter.Letter{before: first, raw: sealed} {
		ref, err := l.Raw()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.desk.Artifacts.ReadLetter(t.Context(), l.ID, ref, artifacts.PrivateKeys{key}); err != nil || string(got) != want {
			t.Errorf("got %s %v", got, err)
		}
	}
}

func TestTwoBytesOfOneEventAreReadAsEachLetterRowNamesThem(t *testing.T) {
	w := newWorld(t)
	for _, raw := range []string{orderEvent("e1", "1", "5"), orderEvent("e1", "1", "5.0"), orderEvent("e1", "1", "5")} {
		l := w.ingest(raw)[0].Letter
		ref, err := l.Raw()
		if err != nil {
			t.Fatal(err)
		}
		// The row is held while the next delivery writes the same object.
		if _, err := w.desk.Artifacts.PutLetter(t.Context(), l.ID, []byte(orderEvent("e1", "1", "5.00"))); err != nil {
			t.Fatal(err)
		}
		if got, err := w.desk.Artifacts.ReadLetter(t.Context(), l.ID, ref, nil); err != nil || string(got) != raw {
			t.Errorf("got %s %v", got, err)
		}
	}
}

func TestTheSameEventAgainIsOneLetterWithMoreSightings(t *testing.T) {
	w := newWorld(t)
	first := w.ingest(orderEvent("e1", "1", "5"))[0]
	w.now = w.now.Add(time.Minute)
	again := w.ingest(orderEvent("e1", "1", "5.0"))[0]
	if first.Letter.ID != again.Letter.ID || len(w.ots.Rows(letter.LetterTable.Name)) != 1 {
		t.Fatalf("got %s and %s", first.Letter.ID, again.Letter.ID)
	}
	stored, _, err := w.desk.Letters.Get(t.Context(), first.Letter.ID)
	if err != nil || stored.DeliveryAttempts != 2 || !stored.LastFailedAt.After(stored.FirstFailedAt) {
		t.Errorf("got %+v %v", stored, err)
	}
}

func TestPlainRecordsBecomeEventsOfTheirFlow(t *testing.T) {
	w := newWorld(t)
	j := w.ingest(`{"event_id":"r1","payload":{"number":"7","amount":1},"error_code":"TIMEOUT","target":"fc:other","flow":"order"}`)[0]
	if j.Letter.Flow != "order" || j.Letter.EventSource != "shop" || j.Letter.Key == "" || j.Decision != ReplayCandidate || j.Target != "fc:other" {
		t.Errorf("got %+v", j)
	}
	for name, record := range map[string]string{
		"no flow":      `{"event_id":"r2","payload":{}}`,
		"unknown flow": `{"event_id":"r3","payload":{},"flow":"nope"}`,
		"no id":        `{"event_id":4,"payload":{},"flow":"order"}`,
	} {
		j := w.ingest(record)[0]
		if want := map[string]string{"no flow": "r2", "unknown flow": "r3"}[name]; j.Code != letter.CodeInvalidSchema || j.Letter.Reason == "" || j.Letter.EventID != want {
			t.Errorf("%s: %+v", name, j)
		}
	}
}

func TestPreviewStoresNothing(t *testing.T) {
	w := newWorld(t)
	j, err := w.desk.Preview(t.Context(), Split([]byte(orderEvent("e1", "1", "5")))[0], "")
	if err != nil || j.Letter.ID == "" {
		t.Fatal(j, err)
	}
	if len(w.ots.Rows(letter.LetterTable.Name)) != 0 || len(w.oss.Objects("letters")) != 0 {
		t.Error("something was stored")
	}
}

func TestNothingIsTakenInWhereTheBytesCannotBeStored(t *testing.T) {
	w := newWorld(t)
	w.oss.Faults.Add(cloudtest.Fault{Op: "PutObject", Kind: cloudtest.Drop})
	if _, err := w.desk.Ingest(t.Context(), Split([]byte(orderEvent("e1", "1", "5")))[0], ""); err == nil {
		t.Error("the letter was taken in")
	}
	if len(w.ots.Rows(letter.LetterTable.Name)) != 0 {
		t.Error("a letter names bytes that are not there")
	}
}

func TestLettersEndAndChangeWithWhoAndWhy(t *testing.T) {
	w := newWorld(t)
	id := w.ingest(orderEvent("e1", "1", "5"))[0].Letter.ID
	if err := w.desk.Reclassify(t.Context(), id, "E_WEIRD", "amy", "why"); err == nil {
		t.Error("a code that decides nothing was taken")
	}
	if err := w.desk.Reclassify(t.Context(), id, letter.CodeTimeout, "amy", "it was being deployed"); err != nil {
		t.Fatal(err)
	}
	l, _, err := w.desk.Letters.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if j, err := w.desk.Judge(t.Context(), l); err != nil || j.Decision != ReplayCandidate || l.ReclassifiedBy != "amy" || l.ReclassifyReason != "it was being deployed" {
		t.Errorf("got %+v %v", j, err)
	}
	w.ots.Faults.Add(cloudtest.Fault{Op: "UpdateRow", Phase: cloudtest.After, Kind: cloudtest.Drop})
	if err := w.desk.Close(t.Context(), id, letter.FinalDiscarded, "amy", "test data"); err != nil {
		t.Fatalf("a lost answer: %v", err)
	}
	if err := w.desk.Close(t.Context(), id, letter.FinalDiscarded, "ben", "again"); !errors.Is(err, errClosed) {
		t.Errorf("a second end: %v", err)
	}
	l, _, _ = w.desk.Letters.Get(t.Context(), id)
	if l.ClosedBy != "amy" || l.CloseReason != "test data" || l.Open() {
		t.Errorf("got %+v", l)
	}
	if err := w.desk.Close(t.Context(), strings.Repeat("0", 64), letter.FinalDiscarded, "amy", "x"); err == nil {
		t.Error("a letter that is not there was closed")
	}
}

func TestALetterFromTheQueueKeepsTheTraceOfItsEvent(t *testing.T) {
	w := newWorld(t)
	const id = "0af7651916cd43dd8448eb211c80319c"
	event := orderEvent("e1", "1", "5")
	j := w.ingest(event[:len(event)-1] + `,"traceparent":"00-` + id + `-b7ad6b7169203331-01"}`)[0]
	if j.Letter.TraceID != id {
		t.Errorf("the letter's trace is %q", j.Letter.TraceID)
	}
}
