package deadletter

import (
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// crowd is a table of n letters in so many groups: letter i is of group i modulo
// groups; every tenth has ended. Open ones have a decision except every k-th.
type crowd struct {
	letters, groups int
	undecided       int // every so many-th open letter has no decision; 0: all have one
}

var crowdTime = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

func (c crowd) letter(i int) (id string, row aliyun.Row) {
	code, target := letter.CodeTimeout, "model:m"+strconv.Itoa(i%c.groups)
	row = aliyun.Row{
		"revision": int64(1), "fingerprint": letter.Fingerprint(code, target), "error_code": string(code), "class": "transient", "target": target,
		"event_id": "e" + strconv.Itoa(i), "event_source": "shop", "flow": "order", "environment": "prod", "delivery_attempts": int64(1),
		"raw_sha256": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "raw_ref": "dead-letters/x/event.bin",
		"first_failed_at": crowdTime.Add(time.Duration(i) * time.Millisecond).UnixMilli(), "last_failed_at": crowdTime.Add(time.Hour).UnixMilli(),
		"expires_at": crowdTime.Add(90 * 24 * time.Hour).UnixMilli(),
	}
	if i%10 == 0 {
		row["final_status"], row["closed_at"] = string(letter.FinalDiscarded), crowdTime.UnixMilli()
	}
	if c.undecided == 0 || i%c.undecided != 1 {
		row["decision"], row["decided_at"] = string(ReplayCandidate), crowdTime.Add(time.Minute).UnixMilli()
	}
	return letter.ID("shop", "e"+strconv.Itoa(i), "d"), row
}

// load writes the letters, 200 a call.
func (c crowd) load(tb testing.TB, srv *otstest.Server, cred cloudtest.Credential) {
	tb.Helper()
	config := tablestore.NewDefaultTableStoreConfig()
	config.Transport = srv.Transport()
	client := tablestore.NewClientWithConfig("http://tables", "oncegate", cred.AccessKeyID, cred.AccessKeySecret, cred.SecurityToken, config)
	for i := 0; i < c.letters; {
		batch := new(tablestore.BatchWriteRowRequest)
		for range min(200, c.letters-i) {
			id, row := c.letter(i)
			change := &tablestore.PutRowChange{TableName: letter.LetterTable.Name, PrimaryKey: new(tablestore.PrimaryKey)}
			change.PrimaryKey.AddPrimaryKeyColumn(letter.LetterTable.Key, id)
			for name, v := range row {
				change.AddColumn(name, v)
			}
			change.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
			batch.AddRowChange(change)
			i++
		}
		resp, err := client.BatchWriteRow(batch)
		if err != nil {
			tb.Fatal(err)
		}
		for _, rows := range resp.TableToRowsResult {
			for _, r := range rows {
				if !r.IsSucceed {
					tb.Fatal(r.Error.Message)
				}
			}
		}
	}
}

// newCrowd returns a desk over a table of many letters.
func newCrowd(tb testing.TB, c crowd) *Desk {
	w := newWorldOf(tb)
	c.load(tb, w.ots, w.cred)
	w.ots.Faults.ResetCalls()
	return w.desk
}

// peak measures how far the live heap grows over what is there now, which is the
// stand-in's data.
type peak struct {
	base, most uint64
	heap       uint64 // all of it, garbage included
	live       []metrics.Sample
}

func newPeak() *peak {
	p := &peak{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}}
	runtime.GC()
	metrics.Read(p.live)
	p.base = p.live[0].Value.Uint64()
	return p
}

func (p *peak) sample(int) {
	metrics.Read(p.live)
	p.heap = max(p.heap, p.live[1].Value.Uint64())
	if now := p.live[0].Value.Uint64(); now > p.base {
		p.most = max(p.most, now-p.base)
	}
}

func (p *peak) megabytes() uint64 { return p.most >> 20 }

func TestFiftyThousandLettersAreCountedExactlyInBoundedMemory(t *testing.T) {
	d := newCrowd(t, crowd{letters: 50_000, groups: 2_000, undecided: 100})
	p := newPeak()
	c, err := d.Count(t.Context(), EachOptions{Progress: p.sample})
	if err != nil {
		t.Fatal(err)
	}
	// The undecided ones have no record: judged by their codes alone.
	if diff := cmp.Diff(map[Decision]int{ReplayCandidate: 45_000}, c.Open); diff != "" {
		t.Error(diff)
	}
	if c.Closed[letter.FinalDiscarded] != 5_000 || len(c.Groups) != 2_000 || c.Classes[letter.ClassTransient] != 45_000 || c.Flows["order"] != 45_000 {
		t.Errorf("closed %v, %d groups, classes %v, flows %v", c.Closed, len(c.Groups), c.Classes, c.Flows)
	}
	for _, g := range c.Groups {
		if g.Open+g.Closed != 25 {
			t.Fatalf("group %s has %d and %d", g.Fingerprint, g.Open, g.Closed)
		}
	}
	want := Basis{Letters: 50_000, Read: 500, Stored: 44_500, Oldest: crowdTime.Add(time.Minute)}
	if diff := cmp.Diff(want, c.Basis); diff != "" {
		t.Error(diff)
	}
	if !c.OldestOpen.Equal(crowdTime.Add(time.Millisecond)) {
		t.Errorf("oldest %v", c.OldestOpen)
	}
	// The collector lets garbage grow as large as what lives.
	if p.megabytes() >= 100 {
		t.Errorf("heap grew by %d MB", p.megabytes())
	}
	again, err := d.Count(t.Context(), EachOptions{})
	if diff := cmp.Diff(c.Groups, again.Groups); diff != "" || err != nil {
		t.Errorf("another order: %v", err)
	}
}

func TestLettersStreamByRisingIDInBoundedMemory(t *testing.T) {
	d := newCrowd(t, crowd{letters: 20_000, groups: 40})
	p := newPeak()
	last, n := "", 0
	basis, err := d.Each(t.Context(), EachOptions{Open: true, Progress: p.sample}, func(j Judgement) error {
		if j.Letter.ID <= last || j.Decision != ReplayCandidate || j.Rule.IsZero() {
			t.Fatalf("after %s came %+v", last, j)
		}
		last, n = j.Letter.ID, n+1
		return nil
	})
	if err != nil || n != 18_000 || basis.Stored != 18_000 || p.megabytes() >= 100 {
		t.Errorf("%d letters, basis %+v, %d MB: %v", n, basis, p.megabytes(), err)
	}
}

func TestFewOpenLettersAreJudgedAnewAndManyByWhatIsStored(t *testing.T) {
	for _, c := range []struct {
		letters, read, stored int
		fresh                 bool
	}{{2223, MaxFresh, 0, false}, {2224, 0, MaxFresh + 1, false}, {2224, 2224, 0, true}} {
		d := newCrowd(t, crowd{letters: c.letters, groups: 7})
		got, err := d.Count(t.Context(), EachOptions{Fresh: c.fresh})
		if err != nil || got.Basis.Stored != c.stored || got.Basis.Read != c.read {
			t.Errorf("%+v: basis %+v %v", c, got.Basis, err)
		}
	}
}

func TestNamedLettersAreFoundWithoutJudgingTheRest(t *testing.T) {
	c := crowd{letters: 12_000, groups: 12}
	w := newWorldOf(t)
	c.load(t, w.ots, w.cred)
	w.ots.Faults.ResetCalls()
	id, row := c.letter(77)
	for name, o := range map[string]EachOptions{
		"event": {EventID: "e77"}, "prefix": {Prefix: id[:12]}, "group": {Fingerprint: row["fingerprint"].(string)},
	} {
		n := 0
		_, err := w.desk.Each(t.Context(), o, func(Judgement) error { n++; return nil })
		want := map[string]int{"event": 1, "prefix": 1, "group": 1000}[name]
		if err != nil || n != want {
			t.Errorf("%s: %d letters, not %d: %v", name, n, want, err)
		}
	}
	if reads := w.ots.Faults.Calls()["GetRow"]; reads > 4 {
		t.Errorf("%d rows were read one by one", reads)
	}
}

func TestNotedDecisionIsWhatACountGoesBy(t *testing.T) {
	w := newWorldOf(t)
	crowd{letters: 1, groups: 1, undecided: 1}.load(t, w.ots, w.cred)
	w.ingest(orderEvent("e1", "1", "5"))
	var first letter.Letter
	_, err := w.desk.Each(t.Context(), EachOptions{Open: true}, func(j Judgement) error {
		first = j.Letter
		return nil
	})
	if err != nil || first.Decision != string(ManualReview) || !first.DecidedAt.Equal(w.now) {
		t.Fatalf("intake stored %q at %v: %v", first.Decision, first.DecidedAt, err)
	}
	j := Judgement{Letter: first, Code: letter.CodeThrottled, Target: "model:x", Decision: ReplayCandidate}
	if ok, err := w.desk.Note(t.Context(), j); !ok || err != nil {
		t.Fatal(ok, err)
	}
	stored, _, _ := w.desk.Letters.Get(t.Context(), first.ID)
	got := Stored(stored)
	if got.Code != letter.CodeThrottled || got.Target != "model:x" || got.Fingerprint != letter.Fingerprint(letter.CodeThrottled, "model:x") ||
		got.Decision != ReplayCandidate || stored.Revision != first.Revision || stored.Code != first.Code {
		t.Errorf("got %+v of %+v", got, stored)
	}
	// One more failure: what was decided before it is nothing any more.
	l := stored
	l.Decision, l.LastFailedAt = "", w.now.Add(time.Second)
	if err := w.desk.Letters.EnsureOpen(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if stored, _, _ = w.desk.Letters.Get(t.Context(), first.ID); stored.Decision != "" || stored.JudgedCode != "" {
		t.Errorf("a sighting left %q", stored.Decision)
	}
	if ok, err := w.desk.Note(t.Context(), Judgement{Letter: stored, Code: stored.Code, Target: stored.Target, Decision: ManualReview}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := w.desk.Reclassify(t.Context(), first.ID, letter.CodeTimeout, "amy", "r"); err != nil {
		t.Fatal(err)
	}
	if stored, _, _ = w.desk.Letters.Get(t.Context(), first.ID); stored.Decision != "" {
		t.Errorf("a new code left %q", stored.Decision)
	}
}
