package idempotency

import (
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/oncegate/oncegate/internal/aliyun"
)

// fullRecord has a value in every field.
func fullRecord() Record {
	at := func(s int64) time.Time { return time.UnixMilli(1_772_352_000_123 + s*1000).UTC() }
	return Record{
		Key: testKey.Hex, RecordVersion: 1, Status: StatusFailedRetryable, Revision: 4,
		History: []Step{{3, StatusRunning, 2, 1_772_352_000_123, "", "run/a"}, {4, StatusFailedRetryable, 2, 1_772_352_001_123, CodeTimeout, "run/a"}},
		Attempt: 2, AttemptBudget: 6, NotBefore: at(1), LeaseUntil: at(2), Owner: ownerA,
		KeyRule: "3f2a9c0b1d4e", KeyFields: testKey.Canonical, InputDigest: testDigest, SupersededDigests: []string{"d0", "d00"},
		OutputRef: Ref{"o", "v", "s"}, ResultRef: Ref{"r", "", "s2"},
		LastErrorCode: CodeTimeout, LastErrorTarget: "model:m", LastErrorSummary: "HTTP 504",
		Effects:     []TaskEffect{{Name: "notify", Key: "k1", Kind: TargetOpaque, State: EffectUnknown, TargetRecordID: "7", Outcome: OutcomeAwaitingReview}},
		EffectsOpen: true, Reviewer: "amy", ReplayBatchID: "rp-1", Abandoned: true,
		Flow: "summary", Environment: "prod", Source: "shop", EventID: "e", TraceID: "t", ConsumerVersion: "7", ProcessorVersion: "p1",
		FirstReceivedAt: at(3), LastAttemptAt: at(4), UpdatedAt: at(5), ExpiresAt: at(6),
	}
}

func TestRecordRoundTrip(t *testing.T) {
	full := fullRecord()
	for v, i := reflect.ValueOf(full), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Fatalf("the fixture lacks %s", v.Type().Field(i).Name)
		}
	}
	for name, r := range map[string]Record{
		"every field": full,
		"zero times and empty texts": {
			Key: testKey.Hex, RecordVersion: 1, Status: StatusReceived, Revision: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			row, err := r.Columns()
			if err != nil {
				t.Fatal(err)
			}
			for column, v := range row {
				switch v.(type) {
				case string, int64:
				default:
					t.Errorf("column %s is a %T", column, v)
				}
			}
			got, err := ParseRecord(r.Key, row)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestZeroTimesLeaveNoColumn(t *testing.T) {
	row, err := Record{RecordVersion: 1, Status: StatusReceived, Revision: 1}.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range []string{"not_before", "lease_until", "first_received_at", "last_attempt_at", "updated_at", "expires_at", "result_ref", "owner"} {
		if v, there := row[column]; there {
			t.Errorf("column %s is %v", column, v)
		}
	}
}

// production is a row as it stands in a table: times in milliseconds.
func production() aliyun.Row {
	return aliyun.Row{
		"kind": "task", "record_version": int64(1), "status": "RUNNING", "revision": int64(3), "attempt": int64(2), "attempt_budget": int64(6),
		"history":     `[{"rev":1,"status":"RUNNING","attempt":1,"at":1772352000123,"actor":"run/aaaaaaaaaaaa"},{"rev":2,"status":"FAILED_RETRYABLE","attempt":1,"at":1772352001000,"code":"rate_limited","actor":"run/aaaaaaaaaaaa"},{"rev":3,"status":"RUNNING","attempt":2,"at":1772352011000,"actor":"run/bbbbbbbbbbbb"}]`,
		"lease_until": int64(1772352101000), "owner": ownerB, "key_fields": `{"order":"17"}`, "input_digest": "d1",
		"last_error_code": "rate_limited", "last_error_target": "model:m", "last_error_summary": "HTTP 429",
		"flow": "summary", "environment": "prod", "source": "shop", "event_id": "e", "processor_version": "p1", "consumer_version": "7",
		"first_received_at": int64(1772352000123), "last_attempt_at": int64(1772352011000), "updated_at": int64(1772352011000), "expires_at": int64(1780128011000),
	}
}

var timeColumns = []string{"not_before", "lease_until", "first_received_at", "last_attempt_at", "updated_at", "expires_at"}

func TestRowInProductionsUnitIsReadAndWrittenBack(t *testing.T) {
	r, err := ParseRecord(testKey.Hex, production())
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 3, 1, 8, 1, 41, 0, time.UTC); !r.LeaseUntil.Equal(want) {
		t.Errorf("S4 lease until %v, want %v", r.LeaseUntil, want)
	}
	row, err := r.Columns()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(production(), row); diff != "" {
		t.Error(diff)
	}
}

func TestSecondsInATimeColumnAreRefused(t *testing.T) {
	for _, column := range timeColumns {
		t.Run("S4 "+column, func(t *testing.T) {
			row := production()
			row[column] = int64(1_772_352_101)
			r, err := ParseRecord(testKey.Hex, row)
			if !errors.Is(err, ErrRecord) || !strings.Contains(err.Error(), column) || r.Status != "" {
				t.Errorf("got %+v %v", r, err)
			}
		})
	}
}

func TestColumnsOfAnotherTypeAreRefused(t *testing.T) {
	for column, v := range production() {
		t.Run(column, func(t *testing.T) {
			row := production()
			if _, text := v.(string); text {
				row[column] = int64(1)
			} else {
				row[column] = "1"
			}
			r, err := ParseRecord(testKey.Hex, row)
			if column == "record_version" {
				// No version can be read, so no transition may touch it.
				if err != nil || r.RecordVersion == RecordVersion {
					t.Errorf("got %+v %v", r, err)
				}
				return
			}
			if !errors.Is(err, ErrRecord) {
				t.Errorf("got %v", err)
			}
		})
	}
	for name, edit := range map[string]func(aliyun.Row){
		"a history that is no list":  func(r aliyun.Row) { r["history"] = "{" },
		"no kind":                    func(r aliyun.Row) { delete(r, "kind") },
		"an effect":                  func(r aliyun.Row) { r["kind"] = "effect" },
		"no revision":                func(r aliyun.Row) { delete(r, "revision") },
		"a reference that is broken": func(r aliyun.Row) { r["result_ref"] = "o?sha256=%zz" },
		"a time that is a double":    func(r aliyun.Row) { r["lease_until"] = float64(1772352101000) },
	} {
		t.Run(name, func(t *testing.T) {
			row := production()
			edit(row)
			if _, err := ParseRecord(testKey.Hex, row); !errors.Is(err, ErrRecord) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRecordOfAnotherVersionIsReturnedForTheTransitionToRefuse(t *testing.T) {
	for name, edit := range map[string]func(aliyun.Row){
		"with the columns that are known": func(aliyun.Row) {},
		"with columns of another type":    func(r aliyun.Row) { r["history"] = int64(1); r["lease_until"] = "soon" },
		"with times in seconds":           func(r aliyun.Row) { r["updated_at"] = int64(1_772_352_101) },
		"of another kind":                 func(r aliyun.Row) { r["kind"] = "saga" },
	} {
		t.Run("S17 "+name, func(t *testing.T) {
			row := maps.Clone(production())
			row["record_version"] = int64(2)
			edit(row)
			r, err := ParseRecord(testKey.Hex, row)
			if err != nil || r.RecordVersion != 2 {
				t.Fatalf("got %+v %v", r, err)
			}
			if answer, _ := DefaultPolicy().Deliver(r, claimOf(ownerA, start.AddDate(1, 0, 0))); answer != AnswerUnreadable {
				t.Errorf("a claim met %q", answer)
			}
		})
	}
}

func TestRefRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Ref{rapid.StringN(1, 40, -1).Draw(t, "object"), rapid.String().Draw(t, "version"), rapid.String().Draw(t, "sha256")}
		got, err := ParseRef(want.String())
		if err != nil || got != want {
			t.Fatalf("got %+v %v, want %+v", got, err, want)
		}
	})
	if got, err := ParseRef(""); err != nil || got != (Ref{}) || got.String() != "" {
		t.Errorf("no reference: %+v %v", got, err)
	}
	if _, err := ParseRef("o?sha256=%zz"); err == nil {
		t.Error("a broken reference was read")
	}
}

func TestClassFollowsFromTheCode(t *testing.T) {
	for code, want := range map[Code]Class{
		CodeTimeout: ClassRetryable, CodeRateLimited: ClassRetryable, CodeTemporaryUnavailable: ClassRetryable, CodeInProgress: ClassRetryable,
		CodeInvalidRequest: ClassFinal, CodePermissionDenied: ClassFinal, CodePolicyRejected: ClassFinal, CodeTargetNotFound: ClassFinal,
		CodeUnclassified: ClassUnknown, "": ClassUnknown, "TIMEOUT": ClassUnknown, "new_code": ClassUnknown,
	} {
		if got := code.Class(); got != want {
			t.Errorf("%q: got %s, want %s", code, got, want)
		}
	}
}
