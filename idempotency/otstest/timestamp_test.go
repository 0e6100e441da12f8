package otstest

import (
	"testing"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/google/go-cmp/cmp"
)

func TestTimestamps(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.table("history", 100)
		stamps := func(key string) []int64 {
			r, err := s.client.GetRow(&tablestore.GetRowRequest{SingleRowQueryCriteria: &tablestore.SingleRowQueryCriteria{
				TableName: "history", PrimaryKey: pk(key), MaxVersion: 100,
			}})
			if err != nil {
				t.Fatal(err)
			}
			var out []int64
			for _, c := range r.Columns {
				out = append(out, c.Timestamp)
			}
			return out
		}
		t.Run("the server's own rise inside one millisecond", func(t *testing.T) {
			for range 5 {
				u := updateChange("history", "frozen", ignore)
				u.PutColumn("a", "x")
				s.must(u)
			}
			base := s.clock.now().UnixMilli()
			if d := cmp.Diff([]int64{base + 4, base + 3, base + 2, base + 1, base}, stamps("frozen")); d != "" {
				t.Fatal(d)
			}
		})
		t.Run("they rise over a put that replaces the row", func(t *testing.T) {
			s.put("history", "replaced", cols{"a": "1"})
			s.put("history", "replaced", cols{"a": "2"})
			if got := stamps("replaced"); len(got) != 1 || got[0] != s.clock.now().UnixMilli()+1 {
				t.Fatal(got)
			}
		})
		t.Run("they follow the clock again", func(t *testing.T) {
			s.clock.advance(1000e6)
			s.put("history", "replaced", cols{"a": "3"})
			if got := stamps("replaced"); got[0] != s.clock.now().UnixMilli() {
				t.Fatal(got)
			}
		})
		t.Run("a client's own are taken within a day", func(t *testing.T) {
			now := s.clock.now().UnixMilli()
			const day = 86400 * 1000
			for at, want := range map[int64]string{
				now - day: "", now - day - 1: "OTSParameterInvalid",
				now + day - 1: "", now + day: "OTSParameterInvalid",
				1: "OTSParameterInvalid", -1: "OTSParameterInvalid",
			} {
				c := putChange("history", "client", ignore, nil)
				c.AddColumnWithTimestamp("a", "x", at)
				if got := code(s.do(c)); got != want {
					t.Errorf("at now%+d: got %q, want %q", at-now, got, want)
				}
			}
		})
		t.Run("a later one of a client hides what the server stamps", func(t *testing.T) {
			now := s.clock.now().UnixMilli()
			u := updateChange("history", "ahead", ignore)
			u.PutColumnWithTimestamp("a", "ahead", now+5000)
			s.must(u)
			u = updateChange("history", "ahead", ignore)
			u.PutColumn("a", "now")
			s.must(u)
			if got := s.versions("history", "ahead", "a", 9); !cmp.Equal(got, []any{"ahead", "now"}) {
				t.Fatal(got)
			}
		})
	})
}
