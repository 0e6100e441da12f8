package aliyun

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// saying answers every call with 200 and a fixed body.
type saying string

func (s saying) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(s)))}, nil
}

func TestAnAnswerOfPutEventsIsBelievedOnlyWhereItAgreesWithItself(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   []Published // nil: nobody knows
	}{
		"both accepted":               {`{"FailedEntryCount":0,"RequestId":"r","EntryList":[{"TraceId":"t1"},{"TraceId":"t2"}]}`, []Published{{TraceID: "t1"}, {TraceID: "t2"}}},
		"one refused":                 {`{"FailedEntryCount":1,"RequestId":"r","EntryList":[{"TraceId":"t1"},{"ErrorCode":"EventBusNotExist"}]}`, []Published{{TraceID: "t1"}, {Code: "EventBusNotExist"}}},
		"a code that is no code":      {`{"FailedEntryCount":1,"RequestId":"r","EntryList":[{"TraceId":"t1"},{"ErrorCode":"a b\n"}]}`, []Published{{TraceID: "t1"}, {Code: "UnknownError"}}},
		"accepted without a list":     {`{"FailedEntryCount":0,"RequestId":"r"}`, []Published{{}, {}}},
		"refused without a list":      {`{"FailedEntryCount":2,"RequestId":"r"}`, nil},
		"another number than refused": {`{"FailedEntryCount":1,"RequestId":"r","EntryList":[{"TraceId":"t1"},{"TraceId":"t2"}]}`, nil},
		"refused, and none counted":   {`{"FailedEntryCount":0,"RequestId":"r","EntryList":[{"TraceId":"t1"},{"ErrorCode":"EventBusNotExist"}]}`, nil},
		"nothing of the service":      {`{}`, nil},
		"no JSON":                     {`<html>`, nil},
	} {
		p, err := NewPublisher("https://bus", Options{
			Credentials: func(context.Context) (Credentials, error) {
				return Credentials{AccessKeyID: "id", AccessKeySecret: "s"}, nil
			},
			Transport: saying(c.answer),
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.PutEvents(t.Context(), "orders", [][]byte{[]byte("{}"), []byte("{}")})
		if c.want == nil && (err == nil || KindOf(err) != KindUnknown) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
		if d := cmp.Diff(c.want, got); d != "" || (c.want != nil && err != nil) {
			t.Errorf("%s: %v\n%s", name, err, d)
		}
	}
}
