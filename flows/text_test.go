package flows

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/oncegate/oncegate/flows/modeltest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/strictjson"
)

func TestTextAsksForTheContentAlone(t *testing.T) {
	for name, c := range map[string]struct {
		payload any
		asked   string
	}{
		"data.content":       {map[string]any{"content": "Order 17 is late.", "x": 1.0}, "Order 17 is late."},
		"a text":             {"Order 17 is late.", "Order 17 is late."},
		"no content":         {map[string]any{"b": "2", "a": "1"}, `{"a":"1","b":"2"}`},
		"content of no text": {map[string]any{"content": true}, `{"content":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			srv := modeltest.New(modeltest.Options{})
			for flow, p := range Processors(Tools{Model: newModel("qwen", srv.Transport(), nil)}) {
				if _, ok := p.(text); !ok {
					continue
				}
				got, err := p.Process(t.Context(), Task{Flow: flow, RequestID: "r", Payload: c.payload})
				if err != nil {
					t.Fatal(err)
				}
				if got[flow] != modeltest.Summary(c.asked) || got["model"] != "qwen" || got["finish_reason"] != "stop" || got["usage"] == nil {
					t.Errorf("%s: got %v", flow, got)
				}
			}
		})
	}
}

func TestTextRefusesDataThatIsNeitherObjectNorText(t *testing.T) {
	for name, payload := range map[string]any{"empty content": map[string]any{"content": " "}, "null": nil, "a number": 7.0, "an array": []any{"x"}, "true": true} {
		t.Run("S26 "+name, func(t *testing.T) {
			srv := modeltest.New(modeltest.Options{})
			_, err := Processors(Tools{Model: newModel("qwen", srv.Transport(), nil)})["summary"].Process(t.Context(), Task{Flow: "summary", Payload: payload})
			var e *Error
			if !errors.As(err, &e) || e.Code != idempotency.CodeInvalidRequest || e.Target != "flow:summary" || srv.Calls() != 0 {
				t.Errorf("got %v after %d calls", err, srv.Calls())
			}
		})
	}
}

func TestVersionCoversModelAndPrompt(t *testing.T) {
	versions := map[string]bool{}
	for _, model := range []string{"qwen", "qwen-plus"} {
		for _, prompt := range []string{"one", "two"} {
			versions[text{newModel(model, nil, nil), "summary", prompt}.Version()] = true
		}
	}
	if len(versions) != 4 {
		t.Errorf("got %v", versions)
	}
	a, b := text{newModel("qwen", nil, nil), "summary", "one"}, text{newModel("qwen", nil, nil), "summary", "one"}
	if a.Version() != b.Version() {
		t.Error("the same processor has two versions")
	}
}

func TestPathsNameOneValueOfTheEvent(t *testing.T) {
	in := textOf(t, map[string]any{"id": "e", "data": map[string]any{"no": "1", "list": []any{"a", map[string]any{"b": "c"}}, "nil": nil, "a.b": "dotted"}})
	for text, want := range map[string]any{
		"$.id": "e", "$.data.no": "1", "$.data.list[0]": "a", "$.data.list[-1].b": "c", "$['data']['a.b']": "dotted", "$.data.nil": nil,
	} {
		p, err := parsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.find(in); !got.Exists() || got.Any() != want {
			t.Errorf("%s: got %s", text, got.Raw())
		}
	}
	for _, text := range []string{"$[0]", "$.data.nope", "$.data.list[2]", "$.data.list[-3]", "$.id.x", "$.data.no[0]"} {
		p, err := parsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.find(in); got.Exists() {
			t.Errorf("%s: got %s", text, got.Raw())
		}
	}
	for text, want := range map[string]error{"$": errWholeEvent, "$.*": errNotSingular, "$..a": errNotSingular, "$[0:1]": errNotSingular, "$['a','b']": errNotSingular} {
		if _, err := parsePath(text); !errors.Is(err, want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	for _, text := range []string{"", "data.no", "$.", "$.data[", "$.data.no "} {
		if _, err := parsePath(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func textOf(t *testing.T, v any) strictjson.Value {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	text, err := strictjson.Check(raw)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTheDigestLeavesOutWhatThePathsName(t *testing.T) {
	whole := func() map[string]any {
		return map[string]any{"no": "1", "at": "x", "list": []any{"a", map[string]any{"b": "c", "d": "e"}, "z"}}
	}
	for _, c := range []struct {
		name    string
		payload any
		paths   []string
		want    any
	}{
		{"nothing", whole(), nil, whole()},
		{"a member", whole(), []string{"$.data.at"}, map[string]any{"no": "1", "list": whole()["list"]}},
		{"two members", whole(), []string{"$.data.at", "$.data.no"}, map[string]any{"list": whole()["list"]}},
		{"an element becomes null", whole(), []string{"$.data.list[0]"}, map[string]any{"no": "1", "at": "x", "list": []any{nil, whole()["list"].([]any)[1], "z"}}},
		{"a negative index", whole(), []string{"$.data.list[-1]"}, map[string]any{"no": "1", "at": "x", "list": []any{"a", whole()["list"].([]any)[1], nil}}},
		{"a member of an element", whole(), []string{"$.data.list[-2].b"}, map[string]any{"no": "1", "at": "x", "list": []any{"a", map[string]any{"d": "e"}, "z"}}},
		{"the same one twice", whole(), []string{"$.data.list[0]", "$.data.list[0]"}, map[string]any{"no": "1", "at": "x", "list": []any{nil, whole()["list"].([]any)[1], "z"}}},
		{"a path that names nothing", whole(), []string{"$.data.nope", "$.data.nope.x", "$.data.list[9]", "$.data.list[-9]", "$.data.no.x", "$.data.no[0]", "$.data.list.x"}, whole()},
		{"outside data", whole(), []string{"$.id", "$.subject.no", "$.no"}, whole()},
		{"data itself", whole(), []string{"$.data"}, whole()},
		{"a scalar", "text", []string{"$.data.no"}, "text"},
		{"null", nil, []string{"$.data.no", "$.data[0]"}, nil},
		{"an array", []any{"a", "b"}, []string{"$.data[0]"}, []any{nil, "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var paths []path
			for _, text := range c.paths {
				p, err := parsePath(text)
				if err != nil {
					t.Fatal(err)
				}
				paths = append(paths, p)
			}
			f := &Flow{ignore: paths}
			if got, want := idempotency.Digest(textOf(t, c.payload), f.noInput()...), idempotency.Digest(textOf(t, c.want)); got != want {
				t.Errorf("the digest is not the one of %v", c.want)
			}
		})
	}
}
