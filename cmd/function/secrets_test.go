package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
)

const phone = "13812345678"

// leaky are events with personal data in every place that an error could quote.
func leaky() map[string][]byte {
	all := map[string][]byte{}
	for name, directive := range map[string]string{
		"success": "", "401": "[[model status=401]]", "403": "[[model status=403 code=" + phone + "]]",
		"429": "[[model status=429 code=limit_requests]]", "400": "[[model status=400 code=DataInspectionFailed]]",
		"404": "[[model status=404]]", "503": "[[model status=503 code=server_error]]", "cut": "[[model cut]]",
		"garbage": "[[model garbage]]", "empty": "[[model empty]]", "no choices": "[[model nochoices]]",
		"error in a 200": "[[model error200 code=server_error]]", "filtered": "[[model finish=content_filter]]",
		"wrong directive": "[[model nonsense]]",
	} {
		all[name] = business{name, directive + " Call " + phone}.event("evt-" + name)
	}
	b := business{"odd", "Call " + phone}
	change := func(name string, change func(event, data map[string]any)) {
		all[name] = b.changed("evt-"+name, change)
	}
	change("conflict", func(_, data map[string]any) {
		data["input_version"], data["content"] = "success", "Never call "+phone
	})
	change("unusable key", func(_, data map[string]any) { data["input_version"] = []any{phone} })
	change("fraction in the key", func(_, data map[string]any) { data["input_version"] = json.Number("0." + phone) })
	change("data is a text", func(event, _ map[string]any) { event["data"] = phone })
	change("flowless", func(event, _ map[string]any) { event["type"] = "demo:task:none" })
	change("other environment", func(event, _ map[string]any) { event["aliyuneventbusname"] = "bus-" + phone })
	change("sloppy time", func(event, data map[string]any) {
		event["time"], data["input_version"] = phone, "sloppy"
	})
	change("trace", func(event, data map[string]any) { event["traceparent"], data["input_version"] = phone, "trace" })
	all["no JSON"] = []byte("call " + phone)
	all["two names"] = []byte(`{"` + phone + `":1,"` + phone + `":2}`)
	all["no CloudEvent"] = []byte(`{"specversion":"` + phone + `"}`)
	all["odd base64"] = []byte(`{"specversion":"1.0","id":"e","source":"s","type":"t","data_base64":"` + phone + `"}`)
	return all
}

func TestSecretsAndPersonalDataStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	events := leaky()
	names := []string{"success"} // before its conflict
	for name := range events {
		names = append(names, name)
	}
	slices.Sort(names[1:])
	for _, name := range names {
		for range 2 {
			w.deliver(events[name])
		}
	}
	w.mustHaveRun(t)

	planted := append([]string{phone, modelKey, keySecret}, w.secrets...)
	clean := func(where, text string) {
		t.Helper()
		for _, secret := range planted {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s holds %q: %s", where, secret, text[max(0, at-200):min(len(text), at+100)])
			}
		}
	}
	clean("the output of the processes", w.output.String())
	for _, a := range w.answers {
		clean("an answer", string(a.Payload))
	}
	for _, table := range []string{idempotency.TaskTable.Name, letter.LetterTable.Name, idempotency.ReviewTable.Name} {
		rows := w.tables.Rows(table)
		if len(rows) == 0 {
			t.Errorf("%s is empty: nothing was looked at", table)
		}
		for _, row := range rows {
			clean(table, fmt.Sprint(row.PrimaryKey, row.Columns))
		}
	}
	for _, o := range w.objects.Objects(bucketName) {
		clean("an object's name, metadata or tags", fmt.Sprint(o.Key, o.Metadata, o.Tags, o.ContentType))
	}
}

// mustHaveRun checks that the events took all the roads that could leak.
func (w *world) mustHaveRun(t *testing.T) {
	t.Helper()
	met := map[string]bool{}
	for _, a := range w.answers {
		met[a.ErrorType] = true
		if a.FunctionError == "" {
			met[string(result(t, a).Decision)] = true
		}
	}
	for _, want := range []string{
		"executed", "duplicate", "conflict", "final", "wrong_environment", "dead_letter",
		"rate_limited", "temporary_unavailable", "unclassified",
	} {
		if !met[want] {
			t.Errorf("no delivery was answered with %s", want)
		}
	}
}

// A code is one of the provider's words. What only looks like one can be data.
func TestProviderCodeThatHoldsANumberOfAPersonIsNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	b := business{"odd code", "[[model status=503 code=error-" + phone + "]] Order 17 is late."}
	w.deliver(b.event("evt-1"))
	rec := w.record()
	if rec.LastErrorCode != idempotency.CodeTemporaryUnavailable || strings.Contains(rec.LastErrorSummary, phone) {
		t.Errorf("%s with the summary %q", rec.LastErrorCode, rec.LastErrorSummary)
	}
	if strings.Contains(w.output.String(), phone) {
		t.Error("the code is in the log")
	}
}
