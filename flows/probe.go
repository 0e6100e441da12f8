package flows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// What a probe asks of a target.
const (
	AskAccess = "access" // does it let us in?
	AskTarget = "target" // is it there, and the one that we mean?
)

// ErrNoRead says that a target offers nothing that could be read without
// changing it: a person has to look.
var ErrNoRead = errors.New("the target offers nothing to read")

// Prober asks a target with one read-only call. ok is false for a no and for no
// answer; result is a fixed text with codes, never what the target said. An
// error wraps ErrNoRead.
type Prober interface {
	Probe(ctx context.Context, ask string) (ok bool, result string, err error)
}

// host names where a call goes: the region of most services is in it.
func host(base string) string {
	if u, err := url.Parse(base); err == nil && u.Host != "" {
		return u.Host
	}
	return "no host"
}

// probeRequestID marks calls of probes.
const probeRequestID = "oncegate-probe"

// Probe looks the model up by its name, and in the list of models where the
// service has no look-up by name.
func (m *Model) Probe(ctx context.Context, ask string) (bool, string, error) {
	if m.name == "" || m.base == "" || strings.Trim(m.name, ".") == "" {
		return false, "no model is configured", nil
	}
	seen := &answer{requestID: probeRequestID}
	found, err := m.client.GetModel(context.WithValue(ctx, answerKey{}, seen), url.PathEscape(m.name))
	where := " of " + host(m.base)
	switch {
	case err == nil && seen.code == "":
		if found.ID != m.name {
			return false, "GET models/NAME" + where + ": HTTP 200, and another id than asked for", nil
		}
		return true, "GET models/NAME" + where + ": HTTP 200, the id is the one asked for", nil
	case seen.status != http.StatusNotFound:
		return false, "GET models/NAME" + where + ": " + seen.summary(), nil
	case ask == AskTarget && seen.code == "model_not_found":
		return false, "GET models/NAME" + where + ": " + seen.summary(), nil
	}
	seen = &answer{requestID: probeRequestID}
	list, err := m.client.ListModels(context.WithValue(ctx, answerKey{}, seen))
	switch {
	case err == nil && seen.code == "":
		if ask == AskAccess {
			return true, "GET models" + where + ": HTTP 200", nil
		}
		for _, one := range list.Models {
			if one.ID == m.name {
				return true, "GET models" + where + ": HTTP 200, the list has the id", nil
			}
		}
		return false, "GET models" + where + ": HTTP 200, the list does not have the id", nil
	case seen.status == http.StatusNotFound:
		return false, "", fmt.Errorf("%w: it has neither models/NAME nor models", ErrNoRead)
	default:
		return false, "GET models" + where + ": " + seen.summary(), nil
	}
}

// Named is the same service asked for another model.
func (m *Model) Named(name string) *Model {
	other := *m
	other.name = name
	return &other
}

// Probe says that a webhook takes messages alone.
func (w webhook) Probe(context.Context, string) (bool, string, error) {
	return false, "", fmt.Errorf("%w: it takes messages alone", ErrNoRead)
}

// absentNumber is a business number that no record can have.
const absentNumber = "oncegate-probe-of-no-record"

// Probe asks for a record that cannot exist: an empty answer shows that we may ask.
func (r records) Probe(ctx context.Context, ask string) (bool, string, error) {
	if r.target.URL == "" {
		return false, "no URL is configured", nil
	}
	answer, err := r.target.call(ctx, r.tools, http.MethodGet, "?number="+url.QueryEscape(absentNumber), "", nil)
	text := "GET a number that cannot exist of " + host(r.target.URL) + ": "
	if err != nil {
		return false, text + "no answer", nil
	}
	text += fmt.Sprintf("HTTP %d", answer.status)
	var list struct {
		Records *[]json.RawMessage `json:"records"`
	}
	known := json.Unmarshal(answer.body, &list) == nil && list.Records != nil
	switch {
	case answer.status == http.StatusOK && known && len(*list.Records) > 0:
		return false, text + ", and a record: it does not look up by number", nil
	case answer.status == http.StatusOK && known:
		return true, text + ", no record", nil
	case answer.status == http.StatusOK:
		return false, text + ", and no list of records", nil
	case answer.status == http.StatusNotFound && ask == AskAccess:
		return true, text, nil
	default:
		return false, text, nil
	}
}

// Probe asks the store of drafts, where it can be asked.
func (d draft) Probe(ctx context.Context, ask string) (bool, string, error) {
	p, ok := d.drafts.(Prober)
	if !ok {
		return false, "", fmt.Errorf("%w: no store for drafts", ErrNoRead)
	}
	return p.Probe(ctx, ask)
}

// Uses is the name of the effect that a failure's target means: of the target
// itself (records, notify, robot), or of an effect that a flow declares.
func (s *Set) Uses(flow, target string) string {
	if uses, ok := map[string]string{"records": "record.create", "notify": "notify", "robot": "robot", "artifact.save": "artifact.save"}[target]; ok {
		return uses
	}
	i := slices.IndexFunc(s.Flows, func(f *Flow) bool { return f.Name == flow })
	if i < 0 {
		return ""
	}
	if d := s.Flows[i].Effect(target); d != nil {
		return d.Uses
	}
	return ""
}
