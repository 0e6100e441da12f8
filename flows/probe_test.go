package flows

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/flows/modeltest"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func status(op string, code int) cloudtest.Fault {
	return cloudtest.Fault{Op: op, Kind: cloudtest.Status, Status: code, Code: "Refused", Times: -1}
}

func TestAModelIsProbedByALookUpAndNeverByACompletion(t *testing.T) {
	for name, c := range map[string]struct {
		model   string
		options modeltest.Options
		fault   cloudtest.Fault
		access  string // "" for yes, else what a no says
		target  string
	}{
		"there":                       {model: "qwen"},
		"there, in the list alone":    {model: "qwen", options: modeltest.Options{NoModelLookUp: true, Models: []string{"other", "qwen"}}},
		"not there, by look-up":       {model: "missing-qwen", target: "404"},
		"not there, by list":          {model: "qwen", options: modeltest.Options{NoModelLookUp: true, Models: []string{"other"}}, target: "does not have the id"},
		"another key":                 {model: "qwen", options: modeltest.Options{APIKey: "other"}, access: "401", target: "401"},
		"403":                         {model: "qwen", fault: status("GetModel", 403), access: "403", target: "403"},
		"500":                         {model: "qwen", fault: status("GetModel", 500), access: "500", target: "500"},
		"429":                         {model: "qwen", fault: status("GetModel", 429), access: "429", target: "429"},
		"no answer":                   {model: "qwen", fault: cloudtest.Fault{Op: "GetModel", Kind: cloudtest.Drop, Times: -1}, access: "no answer", target: "no answer"},
		"the list refuses":            {model: "qwen", options: modeltest.Options{NoModelLookUp: true}, fault: status("ListModels", 403), access: "403", target: "403"},
		"a name that leaves its path": {model: "..", access: "no model is configured", target: "no model is configured"},
	} {
		t.Run(name, func(t *testing.T) {
			server := modeltest.New(c.options)
			if c.fault.Op != "" {
				server.Faults.Add(c.fault)
			}
			m := NewModel(ModelOptions{BaseURL: server.Endpoint(), Name: c.model, APIKey: "k3y", Transport: server.Transport()})
			for ask, want := range map[string]string{AskAccess: c.access, AskTarget: c.target} {
				ok, result, err := m.Probe(t.Context(), ask)
				if err != nil || ok != (want == "") || !strings.Contains(result, want) || !strings.Contains(result+"model.invalid", "model.invalid") {
					t.Errorf("%s: %v %q %v", ask, ok, result, err)
				}
			}
			if server.Calls() != 0 {
				t.Error("the model was asked for a completion")
			}
		})
	}
	t.Run("another model than the one asked for", func(t *testing.T) {
		m := newModel("qwen", answering(http.StatusOK, http.Header{"Content-Type": {"application/json"}}, `{"id":"other","object":"model"}`), nil)
		if ok, result, err := m.Probe(t.Context(), AskTarget); ok || err != nil || !strings.Contains(result, "another id") {
			t.Errorf("%v %q %v", ok, result, err)
		}
	})
	t.Run("a service without models to read is for a person", func(t *testing.T) {
		server := modeltest.New(modeltest.Options{})
		server.Faults.Add(status("GetModel", 404), status("ListModels", 404))
		m := NewModel(ModelOptions{BaseURL: server.Endpoint(), Name: "qwen", APIKey: "k3y", Transport: server.Transport()})
		if _, _, err := m.Probe(t.Context(), AskAccess); !errors.Is(err, ErrNoRead) {
			t.Error(err)
		}
	})
}

func TestARecordTargetIsProbedByANumberThatCannotExist(t *testing.T) {
	for name, c := range map[string]struct {
		token          string
		fault          cloudtest.Fault
		access, target string
	}{
		"lets us in":  {token: targetToken},
		"other token": {token: "other", access: "401", target: "401"},
		"403":         {token: targetToken, fault: status("FindRecord", 403), access: "403", target: "403"},
		"404":         {token: targetToken, fault: status("FindRecord", 404), target: "404"},
		"503":         {token: targetToken, fault: status("FindRecord", 503), access: "503", target: "503"},
		"no answer":   {token: targetToken, fault: cloudtest.Fault{Op: "FindRecord", Kind: cloudtest.Drop, Times: -1}, access: "no answer", target: "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := targettest.New(targettest.Options{Token: c.token})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			if c.fault.Op != "" {
				server.Faults.Add(c.fault)
			}
			p := targetsAt(server.Endpoint(), server.Transport())["record.create"].(Prober)
			for ask, want := range map[string]string{AskAccess: c.access, AskTarget: c.target} {
				ok, result, err := p.Probe(t.Context(), ask)
				if err != nil || ok != (want == "") || !strings.Contains(result, want) {
					t.Errorf("%s: %v %q %v", ask, ok, result, err)
				}
			}
			if len(server.Records()) != 0 {
				t.Error("a record was made")
			}
		})
	}
	for name, body := range map[string]string{"another shape": "{}", "a page": "<html>", "a record": `{"records":[{"id":"r"}]}`} {
		p := targetsAt("http://t", answering(http.StatusOK, nil, body))["record.create"].(Prober)
		if ok, _, _ := p.Probe(t.Context(), AskAccess); ok {
			t.Errorf("%s proves access", name)
		}
	}
	if ok, result, err := Effects(Tools{})["record.create"].(Prober).Probe(t.Context(), AskTarget); ok || err != nil || result != "no URL is configured" {
		t.Errorf("without a URL: %v %q %v", ok, result, err)
	}
}

type readableDrafts struct{ Drafts }

func (readableDrafts) Probe(context.Context, string) (bool, string, error) { return true, "asked", nil }

func TestATargetThatShowsNothingHasNoProbe(t *testing.T) {
	effects := targetsAt("http://t", answering(http.StatusOK, nil, "{}"))
	for _, uses := range []string{"notify", "robot", "artifact.save"} {
		if ok, _, err := effects[uses].(Prober).Probe(t.Context(), AskAccess); ok || !errors.Is(err, ErrNoRead) {
			t.Errorf("%s: %v %v", uses, ok, err)
		}
	}
	if ok, _, err := Effects(Tools{Drafts: readableDrafts{}})["artifact.save"].(Prober).Probe(t.Context(), AskAccess); !ok || err != nil {
		t.Error("the store was not asked")
	}
}

func TestAFailuresTargetNamesAnEffect(t *testing.T) {
	set, err := Embedded(nil)
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{"records": "record.create", "record": "record.create", "robot": "robot", "nope": ""} {
		if got := set.Uses("order.create", target); got != want {
			t.Errorf("%s: %q", target, got)
		}
	}
	if set.Uses("nope", "record") != "" {
		t.Error("a flow that is not there")
	}
}
