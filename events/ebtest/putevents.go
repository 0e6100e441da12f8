package ebtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of one PutEvents call.
const (
	MaxCallEvents = 16
	MaxCallBytes  = 1 << 20
)

// CodeNoBus is the entry's ErrorCode of an event that names another bus.
const CodeNoBus = "EventBusNotExist"

const (
	batchType  = "application/cloudevents-batch+json"
	singleType = "application/cloudevents+json"
)

// entry is what PutEvents answers for one event.
type entry struct {
	EventID string `json:"EventId"`
	TraceID string `json:"TraceId"`
	Code    string `json:"ErrorCode,omitempty"`
	Message string `json:"ErrorMessage,omitempty"`
}

type putEventsAnswer struct {
	Failed    int     `json:"FailedEntryCount"`
	RequestID string  `json:"RequestId"`
	Entries   []entry `json:"EntryList"`
}

// PutEventsHandler serves POST /openapi/putEvents in three forms:
//
//	Content-Type: application/cloudevents-batch+json   an array of 1 to 16 events, as the service takes it
//	Content-Type: application/cloudevents+json         one event
//	Ce-Id, Ce-Source, ...                              one event in binary mode
//
// The first is the service's own; the others let any CloudEvents client
// publish. A call that could be read is answered with 200 and one entry for
// each event, the refused ones with an ErrorCode. Where a single event was
// refused, in the forms of one, the status is 400: a client of CloudEvents
// looks at nothing else. Other refusals are {"Code","Message","RequestId"}:
//
//	400 InvalidArgument     no events, too many, or a body that can't be read
//	403 AccessDenied        accept returned an error
//	413 EntityTooLarge      over MaxCallBytes
//	415 InvalidContentType  none of the three forms
//	503 ServiceUnavailable  the bus is closed
//
// An event of an array or of an object keeps every byte. In binary mode JSON
// data does too; other text becomes a JSON string, all else data_base64. An
// event without aliyuneventbusname is this bus's.
//
// accept checks the call, its signature say, and may read the body; nil
// accepts all. A *RefusedError of it has a status and a code of its own.
func (b *Bus) PutEventsHandler(accept func(r *http.Request) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /openapi/putEvents", func(w http.ResponseWriter, r *http.Request) {
		id := requestID()
		ans, status, err := b.putEvents(r, accept)
		if refused, ok := errors.AsType[*callError](err); ok {
			reply(w, refused.status, map[string]string{"Code": refused.code, "Message": refused.message, "RequestId": id})
			return
		}
		ans.RequestID = id
		reply(w, status, ans)
	})
	return mux
}

// callError refuses a whole call.
type callError struct {
	status        int
	code, message string
}

func (e *callError) Error() string { return e.code + ": " + e.message }

func unreadable(message string) error {
	return &callError{http.StatusBadRequest, "InvalidArgument", message}
}

func (b *Bus) putEvents(r *http.Request, accept func(*http.Request) error) (ans putEventsAnswer, status int, err error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxCallBytes+1))
	if err != nil {
		return ans, 0, unreadable("the body could not be read")
	}
	if len(body) > MaxCallBytes {
		_, _ = io.CopyN(io.Discard, r.Body, 32<<20) // else net/http may close the connection before the answer is read
		return ans, 0, &callError{http.StatusRequestEntityTooLarge, "EntityTooLarge", fmt.Sprintf("the body is over %d bytes", MaxCallBytes)}
	}
	if accept != nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
		err := accept(r)
		if refused, ok := errors.AsType[*RefusedError](err); ok {
			return ans, 0, &callError{refused.Status, refused.Code, "the call is refused"}
		}
		if err != nil {
			return ans, 0, &callError{http.StatusForbidden, "AccessDenied", err.Error()}
		}
	}
	events, single, err := readEvents(r.Header, body)
	if err != nil {
		return ans, 0, err
	}
	status = http.StatusOK
	for _, raw := range events {
		one, err := b.put(r.Context(), raw)
		if err != nil {
			return ans, 0, err
		}
		if one.Code != "" {
			ans.Failed++
			if single {
				status = http.StatusBadRequest
			}
		}
		ans.Entries = append(ans.Entries, one)
	}
	return ans, status, nil
}

// readEvents takes the events out of a call; single says that its form is one of one event.
func readEvents(h http.Header, body []byte) (events [][]byte, single bool, err error) {
	kind, param, err := mime.ParseMediaType(h.Get("Content-Type"))
	if charset := param["charset"]; err == nil && strings.HasPrefix(kind, "application/cloudevents") && charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, false, &callError{http.StatusUnsupportedMediaType, "InvalidContentType", "the charset is not utf-8"}
	}
	switch {
	case err == nil && kind == batchType:
		events, err = cutArray(body)
		return events, false, err
	case err == nil && kind == singleType:
		if !isJSON(body, true) {
			return nil, false, unreadable("the body is not one JSON value")
		}
		return [][]byte{body}, true, nil
	case h.Get("Ce-Specversion") != "":
		raw, err := fromBinary(h, body)
		return [][]byte{raw}, true, err
	}
	return nil, false, &callError{
		http.StatusUnsupportedMediaType, "InvalidContentType",
		"the Content-Type is neither " + batchType + " nor " + singleType + ", and there is no ce-specversion header",
	}
}

// cutArray cuts the elements out of a JSON array as they are spelled. What is
// wrong within one of them, a name given twice or bad UTF-8, is left to the
// check of that event, so that its neighbours get through.
func cutArray(body []byte) ([][]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '[' {
		return nil, unreadable("the body is not a JSON array")
	}
	broken := func() error {
		return unreadable(fmt.Sprintf("the body is not one JSON array: broken after byte %d", d.InputOffset()))
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, broken()
	}
	var events [][]byte
	for d.PeekKind() != ']' {
		v, err := d.ReadValue()
		if err != nil {
			return nil, broken()
		}
		end := int(d.InputOffset())
		events = append(events, body[end-len(v):end:end])
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, broken()
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, broken()
	}
	if len(events) == 0 || len(events) > MaxCallEvents {
		return nil, unreadable(fmt.Sprintf("%d events, not 1 to %d", len(events), MaxCallEvents))
	}
	return events, nil
}

func isJSON(raw []byte, lenient bool) bool {
	return jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(lenient), jsontext.AllowInvalidUTF8(lenient))
}

// put publishes one event; an error is a callError.
func (b *Bus) put(ctx context.Context, raw []byte) (entry, error) {
	one := entry{TraceID: requestID()}
	event, err := checkEvent(raw)
	one.EventID, _ = event["id"].(string)
	if name, named := event["aliyuneventbusname"]; err == nil && named && name != b.opt.Bus {
		err = &PublishError{CodeNoBus, "no event bus of this name"}
	}
	if err == nil {
		_, err = b.accept(ctx, raw, event)
	}
	if refused, ok := errors.AsType[*PublishError](err); ok {
		one.Code, one.Message = refused.Code, refused.Reason
		return one, nil
	}
	if err != nil {
		return one, &callError{http.StatusServiceUnavailable, "ServiceUnavailable", err.Error()}
	}
	return one, nil
}

func reply(w http.ResponseWriter, status int, v any) {
	body, _ := json.Marshal(v)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// requestID has the form of the service's own.
func requestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%X-%X-%X-%X-%X", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
