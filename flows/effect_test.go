package flows

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/idempotency"
)

const plainEffect = `name: notice, uses: notify, kind: idempotent`

// loadEffects loads one flow with effects, each the inside of a YAML mapping.
func loadEffects(effects ...string) (*Set, error) {
	text := flowText(nil)
	if len(effects) > 0 {
		text += "    effects: [{" + strings.Join(effects, "}, {") + "}]\n"
	}
	return loadText(text)
}

func TestLoadRefusesEffectsByName(t *testing.T) {
	for _, c := range []struct{ name, effect, field string }{
		{"a name that is missing", "uses: notify, kind: idempotent", "effects[0].name"},
		{"an effect that is not there", "name: notice, uses: fax, kind: opaque", "effects.notice.uses"},
		{"no effect at all", "name: notice, kind: opaque", "effects.notice.uses"},
		{"a kind that is missing", "name: notice, uses: notify", "effects.notice.kind"},
		{"a kind that is none", "name: notice, uses: notify, kind: safe", "effects.notice.kind"},
		{"readable where nothing can be looked up", "name: notice, uses: notify, kind: readable", "effects.notice.kind"},
		{"a time-out that is none", plainEffect + ", timeout: soon", "effects.notice.timeout"},
		{"a time-out without a unit", plainEffect + ", timeout: '10'", "effects.notice.timeout"},
		{"a negative time-out", plainEffect + ", timeout: -1s", "effects.notice.timeout"},
		{"a time-out of nothing", plainEffect + ", timeout: 0s", "effects.notice.timeout"},
		{"a bad key_ttl", plainEffect + ", key_ttl: day", "effects.notice.key_ttl"},
		{"key_ttl of a readable target", "name: entry, uses: record.create, kind: readable, key_ttl: 1h", "effects.entry.key_ttl"},
		{"key_ttl of an opaque target", "name: notice, uses: robot, kind: opaque, key_ttl: 1h", "effects.notice.key_ttl"},
		{"a bad visible_after", "name: entry, uses: record.create, kind: readable, visible_after: x", "effects.entry.visible_after"},
		{"visible_after of an idempotent target", plainEffect + ", visible_after: 1m", "effects.notice.visible_after"},
		{"a name used twice", plainEffect + "}, {" + plainEffect, "effects.notice"},
		{"a field that has its name already", plainEffect + ", fields: {task_key: {const: x}}", "effects.notice.fields.task_key"},
		{"a field that is the effect's name", plainEffect + ", fields: {effect: {const: x}}", "effects.notice.fields.effect"},
		{"an effect without a field that it needs", "name: entry, uses: record.create, kind: readable", "effects.entry.fields.number"},
		{"a field with neither const nor path", plainEffect + ", fields: {who: {sensitive: true}}", "effects.notice.fields.who"},
		{"a field with both", plainEffect + ", fields: {who: {const: x, path: $.data.no}}", "effects.notice.fields.who"},
		{"a path that is none", plainEffect + ", fields: {who: {path: data.no}}", "effects.notice.fields.who"},
		{"a path that may name many", plainEffect + ", fields: {who: {path: '$.data.*'}}", "effects.notice.fields.who"},
		{"a path that names nothing in the sample", plainEffect + ", fields: {who: {path: $.data.nobody}}", "effects.notice.fields.who"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := loadEffects(c.effect)
			var ce *ConfigError
			if !errors.As(err, &ce) || ce.Flow != "f" || ce.Field != c.field {
				t.Fatalf("got %v, want an error of field %s", err, c.field)
			}
		})
	}
	if _, err := loadEffects(plainEffect + ", retries: 3"); err == nil || !strings.Contains(err.Error(), "retries") {
		t.Errorf("an unknown key: got %v", err)
	}
}

func TestEffectsAreReadAsDeclared(t *testing.T) {
	s, err := loadEffects(plainEffect+", timeout: 3s, key_ttl: 24h, fields: {who: {path: $.data.no, sensitive: true}, type: {const: done}}",
		"name: entry, uses: record.create, kind: readable, visible_after: 2m, fields: {number: {path: $.data.no}}", "name: alarm, uses: robot, kind: opaque")
	if err != nil {
		t.Fatal(err)
	}
	f := s.Flows[0]
	for name, want := range map[string]idempotency.EffectSpec{
		"notice": {Name: "notice", Kind: idempotency.TargetIdempotent, Timeout: 3 * time.Second, KeyTTL: 24 * time.Hour},
		"entry":  {Name: "entry", Kind: idempotency.TargetReadable, Timeout: DefaultEffectTimeout, VisibleAfter: 2 * time.Minute},
		"alarm":  {Name: "alarm", Kind: idempotency.TargetOpaque, Timeout: DefaultEffectTimeout},
	} {
		if d := f.Effect(name); d == nil || d.EffectSpec != want {
			t.Errorf("%s: got %+v", name, d)
		}
	}
	if f.Effect("nothing") != nil || !f.NeedsSecret() || len(s.NeedsSecret()) != 1 {
		t.Error("a sensitive field of an effect needs no secret")
	}
	in := input(t, f, decode(t, sampleYAML))
	all, err := f.TaskEffects("task", in, []byte("secret"))
	if err != nil || len(all) != 3 || all[0].Name != "notice" || all[1].Name != "entry" || all[2].Name != "alarm" {
		t.Fatalf("got %+v %v", all, err)
	}
	for _, e := range all {
		if e.State != "" || e.Kind != f.Effect(e.Name).Kind || len(e.Key) != 64 {
			t.Errorf("effect %+v", e)
		}
	}
	if values := f.Effect("notice").Values(in); len(values) != 2 || values["who"] != "1" || values["type"] != "done" {
		t.Errorf("the target gets %v", values)
	}
	none, err := loadEffects()
	if err != nil {
		t.Fatal(err)
	}
	if all, err := none.Flows[0].TaskEffects("task", in, nil); all != nil || err != nil || none.Flows[0].NeedsSecret() {
		t.Errorf("a flow without effects: %v %v", all, err)
	}
}

func TestEffectKeyVectors(t *testing.T) {
	raw, err := os.ReadFile("../idempotency/testdata/keys.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Effects []struct {
			Name           string
			Fields         map[string]string
			Canonical, Key string
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil || len(file.Effects) == 0 {
		t.Fatal(err)
	}
	for _, c := range file.Effects {
		t.Run(c.Name, func(t *testing.T) {
			data := map[string]string{"no": "1"}
			var fields []string
			for name, v := range c.Fields {
				if name != "task_key" && name != "effect" {
					data[name] = v
					fields = append(fields, name+": {path: $.data."+name+"}")
				}
			}
			body, err := json.Marshal(data)
			if err != nil {
				t.Fatal(err)
			}
			sample := `{"specversion":"1.0","id":"e","source":"s","type":"t","aliyuneventbusname":"b","data":` + string(body) + `}`
			text := flowText(set("sample", "'"+sample+"'")) +
				"    effects: [{name: " + c.Fields["effect"] + ", uses: notify, kind: idempotent, fields: {" + strings.Join(fields, ", ") + "}}]\n"
			s, err := loadText(text)
			if err != nil {
				t.Fatal(err)
			}
			k, err := s.Flows[0].Effect(c.Fields["effect"]).Key(c.Fields["task_key"], input(t, s.Flows[0], decode(t, sample)), nil)
			if err != nil || k.Hex != c.Key || k.Canonical != c.Canonical {
				t.Errorf("got %+v %v, want %s", k, err, c.Key)
			}
		})
	}
}

func TestEffectKeyFollowsTaskEffectAndFieldsAlone(t *testing.T) {
	s, err := loadEffects(plainEffect+", fields: {who: {path: $.data.no, sensitive: true}}", "name: other, uses: robot, kind: opaque, fields: {who: {path: $.data.no, sensitive: true}}")
	if err != nil {
		t.Fatal(err)
	}
	f := s.Flows[0]
	key := func(name, task, text, secret string) string {
		t.Helper()
		k, err := f.Effect(name).Key(task, input(t, f, decode(t, text)), []byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(k.Canonical, `"1"`) {
			t.Errorf("a sensitive field is told: %s", k.Canonical)
		}
		return k.Hex
	}
	base := key("notice", "task", sampleYAML, "secret")
	if got := key("notice", "task", strings.NewReplacer(`"id":"e"`, `"id":"e2"`, `"at":"x"`, `"at":"y"`).Replace(sampleYAML), "secret"); got != base {
		t.Error("an event id or another value entered the key")
	}
	for name, got := range map[string]string{
		"task": key("notice", "task2", sampleYAML, "secret"), "effect": key("other", "task", sampleYAML, "secret"),
		"field": key("notice", "task", strings.Replace(sampleYAML, `"no":"1"`, `"no":"2"`, 1), "secret"), "secret": key("notice", "task", sampleYAML, "another"),
	} {
		if got == base {
			t.Errorf("another %s has the same key", name)
		}
	}
	missing := input(t, f, decode(t, strings.Replace(sampleYAML, `"no":"1"`, `"no":null`, 1)))
	var fe *idempotency.FieldError
	if _, err := f.TaskEffects("task", missing, []byte("secret")); !errors.As(err, &fe) || fe.Field != "who" {
		t.Errorf("a field that is missing: %v", err)
	}
}

func TestEffectsAreBuiltByTheNamesThatFlowsUse(t *testing.T) {
	built := Effects(Tools{})
	for _, name := range []string{"notify", "robot", "record.create", "artifact.save"} {
		if built[name] == nil {
			t.Errorf("there is no effect %s", name)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a name was registered twice")
		}
	}()
	registerEffect("notify", nil)
}

// drafts keeps what is saved, or says why not.
type drafts struct{ err error }

func (d drafts) SaveDraft(_ context.Context, task, effect string, body []byte) (string, error) {
	return task + "/" + effect + "/" + string(body), d.err
}

func TestDraftSaysWhetherItIsThere(t *testing.T) {
	call := EffectCall{TaskKey: "t", Key: "k", Output: []byte("o")}
	if id, err := Effects(Tools{Drafts: drafts{}})["artifact.save"].Send(t.Context(), call); err != nil || id != "t/k/o" {
		t.Errorf("got %s %v", id, err)
	}
	var known *Error
	if _, err := Effects(Tools{Drafts: drafts{errors.New("cut")}})["artifact.save"].Send(t.Context(), call); err == nil || errors.As(err, &known) || !errors.Is(err, errLost) {
		t.Errorf("a lost answer: %v", err)
	}
	if _, err := Effects(Tools{})["artifact.save"].Send(t.Context(), call); !errors.As(err, &known) || known.Code != idempotency.CodeTargetNotFound {
		t.Errorf("no store: %v", err)
	}
}

func TestRecordFlowsNeedAnObject(t *testing.T) {
	p := Processors(Tools{})["record"]
	if fields, err := p.Process(t.Context(), Task{Payload: map[string]any{"a": "b"}}); err != nil || fields["record"] == nil || p.Version() == "" {
		t.Errorf("got %v %v", fields, err)
	}
	var known *Error
	if _, err := p.Process(t.Context(), Task{Flow: "f", Payload: "text"}); !errors.As(err, &known) || known.Code != idempotency.CodeInvalidRequest {
		t.Errorf("got %v", err)
	}
}
