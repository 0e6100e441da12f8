package targettest_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/flows/targettest"
)

const (
	day   = 24 * time.Hour
	hello = `{"text":"hello"}`
	r17   = `{"number":"R-17","text":"late"}`
)

func TestARepeatedKeyDeliversNothingNew(t *testing.T) {
	twice(t, targettest.Options{}, func(t *testing.T, s *stand) {
		for range 3 {
			s.post(t, "/notify", "k1", hello).want(t, 200, `{"id":"ntf-1"}`)
		}
		s.post(t, "/notify", "k2", hello).want(t, 200, `{"id":"ntf-2"}`)
		s.effects(t, 2, 0, 0)
		if got := s.Notifications(); got[0].Count != 3 || got[1].Count != 1 {
			t.Errorf("notifications %+v", got)
		}
	})
}

func TestACallWithoutAKeyAlwaysDelivers(t *testing.T) {
	twice(t, targettest.Options{}, func(t *testing.T, s *stand) {
		s.post(t, "/notify", "", hello).want(t, 200, `{"id":"ntf-1"}`)
		s.post(t, "/notify", "", hello).want(t, 200, `{"id":"ntf-2"}`)
		s.effects(t, 2, 0, 0)
	})
}

func TestAKeyWithAnotherBodyIsRefused(t *testing.T) {
	twice(t, targettest.Options{}, func(t *testing.T, s *stand) {
		s.post(t, "/notify", "k", hello)
		s.post(t, "/notify", "k", hello+" ").refused(t, 422, "idempotency_key_reused")
		s.post(t, "/notify", "k", hello).want(t, 200, `{"id":"ntf-1"}`)
		if got := s.Notifications(); len(got) != 1 || got[0].Count != 2 || got[0].BodySHA256 != sha(hello) {
			t.Errorf("notifications %+v", got)
		}
	})
}

func TestAForgottenKeyDeliversAgain(t *testing.T) {
	c := newClock()
	s := inProcess(t, targettest.Options{KeyTTL: day, Now: c.now})
	s.post(t, "/notify", "k", hello).want(t, 200, `{"id":"ntf-1"}`)
	c.pass(day - 1)
	s.post(t, "/notify", "k", hello).want(t, 200, `{"id":"ntf-1"}`)
	c.pass(1)
	s.post(t, "/notify", "k", `{"text":"another"}`).want(t, 200, `{"id":"ntf-2"}`)
	c.pass(day - 1)
	s.post(t, "/notify", "k", `{"text":"another"}`).want(t, 200, `{"id":"ntf-2"}`)
	s.post(t, "/notify", "k", hello).refused(t, 422, "idempotency_key_reused")
	s.effects(t, 2, 0, 0)
}

func TestWithoutATTLAKeyIsKeptForEver(t *testing.T) {
	c := newClock()
	s := inProcess(t, targettest.Options{Now: c.now})
	s.post(t, "/notify", "k", hello)
	c.pass(10000 * day)
	s.post(t, "/notify", "k", hello).want(t, 200, `{"id":"ntf-1"}`)
	s.effects(t, 1, 0, 0)
}

func TestTheRobotSendsEachTimeAndTellsNothing(t *testing.T) {
	twice(t, targettest.Options{}, func(t *testing.T, s *stand) {
		for _, key := range []string{"k", "k", ""} {
			s.post(t, "/robot", key, hello).want(t, 200, `{"errcode":0}`)
		}
		s.effects(t, 0, 3, 0)
		got := s.RobotMessages()
		if got[0].ID != "msg-1" || got[1].Key != "k" || got[2].Key != "" || got[2].BodySHA256 != sha(hello) {
			t.Errorf("messages %+v", got)
		}
		s.get(t, "/robot").refused(t, 405, "method_not_allowed")
	})
}

func TestANumberIsCreatedOnceAndFound(t *testing.T) {
	c := newClock()
	twice(t, targettest.Options{Now: c.now}, func(t *testing.T, s *stand) {
		s.get(t, "/records?number=R-17").want(t, 200, `{"records":[]}`)
		s.post(t, "/records", "k", r17).want(t, 201, `{"id":"rec-1","number":"R-17"}`)
		got := s.post(t, "/records", "k", r17)
		got.refused(t, 409, "exists")
		if !strings.Contains(got.body, `"id":"rec-1"`) {
			t.Errorf("conflict %s", got.body)
		}
		s.post(t, "/records", "k", `{"number":"R-18"}`).want(t, 201, `{"id":"rec-2","number":"R-18"}`)
		const found = `{"records":[{"id":"rec-1","number":"R-17","created_at":"2026-03-01T10:00:00.000000005Z"}]}`
		s.get(t, "/records?number=R-17").want(t, 200, found)
		s.get(t, "/records/by-number/R-17").want(t, 200, found)
		s.get(t, "/records/by-number/R").want(t, 200, `{"records":[]}`)
	})
}

func TestANumberMayHoldAnyText(t *testing.T) {
	twice(t, targettest.Options{}, func(t *testing.T, s *stand) {
		const number = "订单/17 ä?#&%2F"
		s.post(t, "/records", "", `{"number":"`+number+`"}`).want(t, 201, `{"id":"rec-1","number":"`+number+`"}`)
		for _, path := range []string{"/records?number=" + url.QueryEscape(number), "/records/by-number/" + url.PathEscape(number)} {
			if got := s.get(t, path); !strings.Contains(got.body, `"id":"rec-1"`) {
				t.Errorf("%s: %s", path, got.body)
			}
		}
	})
}

func TestARecordShowsLateAndConflictsAtOnce(t *testing.T) {
	c := newClock()
	s := inProcess(t, targettest.Options{VisibleAfter: time.Minute, Now: c.now})
	s.post(t, "/records", "", r17)
	c.pass(time.Minute - 1)
	s.get(t, "/records?number=R-17").want(t, 200, `{"records":[]}`)
	s.post(t, "/records", "", r17).refused(t, 409, "exists")
	c.pass(1)
	if got := s.get(t, "/records/by-number/R-17"); !strings.Contains(got.body, `"rec-1"`) {
		t.Errorf("found %s", got.body)
	}
	s.effects(t, 0, 0, 1)
}

func TestABlindTargetHasANumberTwice(t *testing.T) {
	c := newClock()
	s := inProcess(t, targettest.Options{VisibleAfter: time.Minute, ConflictAfterVisible: true, Now: c.now})
	s.post(t, "/records", "", r17).want(t, 201, `{"id":"rec-1","number":"R-17"}`)
	c.pass(time.Minute - 1)
	s.post(t, "/records", "", r17).want(t, 201, `{"id":"rec-2","number":"R-17"}`)
	c.pass(1)
	if got := s.post(t, "/records", "", r17); got.status != 409 || !strings.Contains(got.body, `"rec-1"`) {
		t.Errorf("conflict %d %s", got.status, got.body)
	}
	if got := s.get(t, "/records?number=R-17").body; strings.Contains(got, "rec-2") {
		t.Errorf("the second one shows early: %s", got)
	}
	c.pass(time.Minute)
	got := s.get(t, "/records?number=R-17").body
	if i, j := strings.Index(got, "rec-1"), strings.Index(got, "rec-2"); i < 0 || j < i {
		t.Errorf("found %s", got)
	}
	s.effects(t, 0, 0, 2)
}

func TestRecordsCanHonourKeys(t *testing.T) {
	c := newClock()
	s := inProcess(t, targettest.Options{RecordsHonourKey: true, KeyTTL: day, Now: c.now})
	for range 2 {
		s.post(t, "/records", "k", r17).want(t, 201, `{"id":"rec-1","number":"R-17"}`)
	}
	s.post(t, "/records", "k", `{"number":"R-18"}`).refused(t, 422, "idempotency_key_reused")
	s.post(t, "/records", "other", r17).refused(t, 409, "exists")
	s.post(t, "/records", "", r17).refused(t, 409, "exists")
	s.post(t, "/records", "", `{"number":"R-19"}`).want(t, 201, `{"id":"rec-2","number":"R-19"}`)
	s.post(t, "/records", "", `{"number":"R-20"}`).want(t, 201, `{"id":"rec-3","number":"R-20"}`)
	c.pass(day)
	s.post(t, "/records", "k", r17).refused(t, 409, "exists")
	s.post(t, "/records", "k", `{"number":"R-18"}`).want(t, 201, `{"id":"rec-4","number":"R-18"}`)
	s.effects(t, 0, 0, 4)
}

func TestWhatHappenedIsKeptAsCopies(t *testing.T) {
	c := newClock()
	s := inProcess(t, targettest.Options{Now: c.now})
	s.post(t, "/notify", "kn", hello)
	c.pass(time.Second)
	s.post(t, "/robot", "", hello)
	c.pass(time.Second)
	s.post(t, "/records", "kr", r17)
	at := newClock().at
	for _, diff := range []string{
		cmp.Diff([]targettest.Notification{{ID: "ntf-1", Key: "kn", BodySHA256: sha(hello), Time: at, Count: 1}}, s.Notifications()),
		cmp.Diff([]targettest.RobotMessage{{ID: "msg-1", BodySHA256: sha(hello), Time: at.Add(time.Second)}}, s.RobotMessages()),
		cmp.Diff([]targettest.Record{{ID: "rec-1", Number: "R-17", Key: "kr", BodySHA256: sha(r17), Time: at.Add(2 * time.Second)}}, s.Records()),
	} {
		if diff != "" {
			t.Error(diff)
		}
	}
	s.Notifications()[0].Key, s.RobotMessages()[0].Key, s.Records()[0].Key = "x", "x", "x"
	if s.Notifications()[0].Key != "kn" || s.RobotMessages()[0].Key != "" || s.Records()[0].Key != "kr" {
		t.Error("a caller changed what happened")
	}
}

func TestATokenIsAskedForWhereThereIsOne(t *testing.T) {
	twice(t, targettest.Options{Token: "right"}, func(t *testing.T, s *stand) {
		for _, auth := range []string{"", "Bearer", "Bearer wrong", "Basic right", "right"} {
			s.header = http.Header{"Authorization": {auth}}
			s.post(t, "/notify", "k", hello).refused(t, 401, "unauthorized")
			s.post(t, "/robot", "", hello).refused(t, 401, "unauthorized")
			s.post(t, "/records", "", r17).refused(t, 401, "unauthorized")
			s.get(t, "/records?number=R-17").refused(t, 401, "unauthorized")
		}
		s.effects(t, 0, 0, 0)
		s.header = http.Header{"Authorization": {"Bearer right"}}
		s.post(t, "/notify", "k", hello).want(t, 200, `{"id":"ntf-1"}`)
	})
}
