package simtest

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// version is one committed state of one row.
type version struct {
	step int
	row  aliyun.Row
}

// violation is one invariant that did not hold.
type violation struct {
	invariant string
	text      string
	step      int
}

func (v violation) String() string {
	return fmt.Sprintf("%s at step %d: %s", v.invariant, v.step, v.text)
}

// checker keeps what the stand-ins have committed, write by write, and compares
// each write with what must hold.
type checker struct {
	world   *world
	rows    map[string][]version // by table/key
	objects map[string][]osstest.Object
	outputs map[string]int    // step at which an output came to be, by object name
	claims  map[string]int    // step of each claim, by key/attempt
	digests map[string]string // of each claim, by key/attempt
	effects map[string]int    // what really happened outside, by effect key
	denied  map[string]int    // answers confirmed_not_done, by effect key
	found   []violation

	notifications, records, messages int
	effectOf                         map[string]string // effect key by task key and effect name
}

func newChecker(w *world) *checker {
	return &checker{
		world: w, rows: map[string][]version{}, objects: map[string][]osstest.Object{}, outputs: map[string]int{},
		claims: map[string]int{}, digests: map[string]string{}, effects: map[string]int{}, denied: map[string]int{}, effectOf: map[string]string{},
	}
}

func (k *checker) broken(invariant, format string, args ...any) {
	v := violation{invariant, fmt.Sprintf(format, args...), k.world.steps}
	k.found = append(k.found, v)
	k.world.note("VIOLATION %s", v)
}

// now is the newest committed row of a table, nil where there is none.
func (k *checker) now(table aliyun.Table, key string) aliyun.Row {
	if all := k.rows[table.Name+"/"+key]; len(all) > 0 {
		return all[len(all)-1].row
	}
	return nil
}

// newest are all rows of a table by key.
func (k *checker) newest(table aliyun.Table) map[string]aliyun.Row {
	all := map[string]aliyun.Row{}
	for name, versions := range k.rows {
		if key, ok := strings.CutPrefix(name, table.Name+"/"); ok {
			all[key] = versions[len(versions)-1].row
		}
	}
	return all
}

func (k *checker) reviews() map[string]aliyun.Row { return k.newest(idempotency.ReviewTable) }

// record is the newest committed record of a key.
func (k *checker) record(key string) (r idempotency.Record, ok bool) {
	row := k.now(idempotency.TaskTable, key)
	if row == nil || row["kind"] != idempotency.KindTask {
		return r, false
	}
	r, err := idempotency.ParseRecord(key, row)
	return r, err == nil
}

func (k *checker) effect(key string) (e idempotency.Effect, ok bool) {
	row := k.now(idempotency.TaskTable, key)
	if row == nil {
		return e, false
	}
	e, err := idempotency.ParseEffect(key, row)
	return e, err == nil
}

// tables looks at the row that a call may have written.
func (k *checker) tables(op, about string) {
	if op != "PutRow" && op != "UpdateRow" {
		return
	}
	table, key, _ := strings.Cut(about, "/")
	if table == plan.PlanTable.Name || table == plan.ApprovalTable.Name {
		return // of people, and never changed here
	}
	for _, r := range k.world.tables.Rows(table) {
		if r.PrimaryKey[0].Value != key {
			continue
		}
		versions := k.rows[about]
		row := aliyun.Row(r.Columns)
		if len(versions) > 0 && maps.Equal(versions[len(versions)-1].row, row) {
			return
		}
		k.rows[about] = append(versions, version{k.world.steps, row})
		var before aliyun.Row
		if len(versions) > 0 {
			before = versions[len(versions)-1].row
		}
		k.revision(about, before, row)
		k.secrets("row "+about, row)
		switch {
		case table == idempotency.ReviewTable.Name:
			k.reviewed(before, row)
		case table == letter.LetterTable.Name:
			k.lettered(key, row)
		case row["kind"] == idempotency.KindTask:
			k.taskRow(key, before, row)
		default:
			k.effectRow(key, before, row)
		}
	}
}

// object looks at the object that a call may have written.
func (k *checker) object(name string) {
	var versions []osstest.Object
	for _, o := range k.world.objects.Objects(bucketName) {
		if o.Key == name {
			versions = append(versions, o)
		}
	}
	if len(versions) == len(k.objects[name]) {
		return
	}
	before := k.objects[name]
	k.objects[name] = versions
	k.stored(before, versions[len(versions)-1])
}

// holds reports whether a reference names bytes that are there.
func (k *checker) holds(ref idempotency.Ref) bool {
	for _, o := range k.objects[ref.Object] {
		if (ref.VersionID == "" || ref.VersionID == o.VersionID) && idempotency.DigestBinary(o.Body) == ref.SHA256 {
			return true
		}
	}
	return false
}

// carriedOut is told of every call that has reached its service, or not.
func (k *checker) carriedOut(c *call) {
	switch {
	case !c.write():
	case c.service == tablestore:
		k.tables(c.op, c.about)
	case c.service == oss:
		k.object(strings.TrimPrefix(c.about, "/"))
	case c.service == target:
		k.outside(c)
	}
}

func (k *checker) since(t time.Time) time.Duration { return t.Sub(start).Round(time.Millisecond) }
