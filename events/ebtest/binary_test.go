package ebtest_test

import (
	"bufio"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/events/ebtest"
)

func TestPutEventsTakesAnEventInBinaryMode(t *testing.T) {
	const attributes = `{"aliyunaccountid":"1","aliyuneventbusname":"orders","aliyunpublishtime":"t","aliyunregionid":"r",` +
		`"id":"1","source":"/s","specversion":"1.0","subject":"100% ü \"x\"","type":"t"`
	for _, c := range []struct{ name, contentType, body, want string }{
		{"JSON keeps its bytes", "application/json", ` {"b":1.50,"a":1e2,"z":"\u00e9<&>"} `, `,"datacontenttype":"application/json","data": {"b":1.50,"a":1e2,"z":"\u00e9<&>"} }`},
		{"a JSON subtype too", "application/x+json; charset=utf-8", `[1.0]`, `,"datacontenttype":"application/x+json; charset=utf-8","data":[1.0]}`},
		{"text is a string", "text/plain", "a \"word\"\n<é>", `,"datacontenttype":"text/plain","data":"a \"word\"\n<é>"}`},
		{"text that is no UTF-8 is base64", "text/plain", "\xff", `,"datacontenttype":"text/plain","data_base64":"/w=="}`},
		{"all else is base64", "application/octet-stream", "abc", `,"datacontenttype":"application/octet-stream","data_base64":"YWJj"}`},
		{"bytes of no type are base64", "", "abc", `,"data_base64":"YWJj"}`},
		{"no data", "", "", `}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFront(t, nil)
			status, a := f.post(
				c.contentType, c.body, "Ce-Specversion", "1.0", "Ce-Id", "1", "Ce-Source", "%2Fs", "Ce-Type", "t", "Ce-Subject", `100% ü "x"`,
				"Ce-Aliyuneventbusname", "orders", "Ce-Aliyunregionid", "r", "Ce-Aliyunaccountid", "1", "Ce-Aliyunpublishtime", "t",
			)
			if status != 200 || a.EntryList[0].EventID != "1" {
				t.Fatalf("got %d %+v", status, a)
			}
			if got := f.delivered(); !slices.Equal(got, []string{attributes + c.want}) {
				t.Errorf("delivered\n%s\nwant\n%s", got, attributes+c.want)
			}
		})
	}
	f := newFront(t, nil)
	if status, a := f.post("", "", "ce-specversion", "1.0", "ce-id", "1"); status != 400 || a.EntryList[0].ErrorCode != ebtest.CodeNotEvent {
		t.Errorf("an event without a source: got %d %+v", status, a)
	}
}

// The recordings are what the HTTP client of the CloudEvents SDK sends, taken
// from it by testdata/sdkhttp.
func TestPutEventsTakesWhatTheCloudEventsClientSends(t *testing.T) {
	common := map[string]any{
		"specversion": "1.0", "source": "app.test", "type": "app:Order:Paid", "subject": "100% ü", "time": "2026-03-01T10:00:00Z", "tenant": "t1",
	}
	for name, want := range map[string][]map[string]any{
		"structured":   {{"id": "1", "datacontenttype": "application/json", "data": map[string]any{"order": json.Number("9007199254740993"), "text": "<é&>"}}},
		"binary":       {{"id": "2", "datacontenttype": "application/json", "data": map[string]any{"order": json.Number("9007199254740993"), "text": "<é&>"}}},
		"binary-text":  {{"id": "3", "datacontenttype": "text/plain", "data": `a "word" <é>`}},
		"binary-bytes": {{"id": "4", "datacontenttype": "application/octet-stream", "data_base64": "/wD+"}},
		"batch": {
			{"id": "5", "datacontenttype": "application/json", "data": map[string]any{"order": json.Number("9007199254740993"), "text": "<é&>"}},
			{"id": "6", "datacontenttype": "application/json", "data": map[string]any{"order": json.Number("9007199254740993"), "text": "<é&>"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := os.Open(filepath.Join("testdata", "sdk", name+".http"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			r, err := http.ReadRequest(bufio.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			f := newFront(t, nil)
			if status, a := f.do(r.WithContext(t.Context())); status != 200 || a.FailedEntryCount != 0 || len(a.EntryList) != len(want) {
				t.Fatalf("got %d %+v", status, a)
			}
			got := map[string]map[string]any{}
			for _, raw := range f.delivered() {
				d := json.NewDecoder(strings.NewReader(raw))
				d.UseNumber()
				var e map[string]any
				if err := d.Decode(&e); err != nil {
					t.Fatal(err)
				}
				for _, added := range []string{"aliyuneventbusname", "aliyunregionid", "aliyunpublishtime", "aliyunaccountid"} {
					delete(e, added)
				}
				got[e["id"].(string)] = e
			}
			for _, e := range want {
				maps.Copy(e, common)
				if diff := cmp.Diff(e, got[e["id"].(string)]); diff != "" {
					t.Errorf("delivered, - want, + got:\n%s", diff)
				}
			}
		})
	}
}
