package aliyun

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Limits of one PutEvents call. The size is that of the body, in bytes.
// https://www.alibabacloud.com/help/en/eventbridge/product-overview/limits
const (
	MaxPutEvents      = 16
	MaxPutEventsBytes = 1 << 20
)

// Publisher publishes events on a bus. It is safe for concurrent use.
type Publisher struct{ api *openAPI }

// NewPublisher returns a client of a data endpoint such as
// https://<account>.eventbridge.<region>.aliyuncs.com; it makes no call.
func NewPublisher(endpoint string, o Options) (*Publisher, error) {
	api, err := newOpenAPI("eventbridge", "2015-06-06", endpoint, o)
	if err != nil {
		return nil, err
	}
	api.sign = signEventBridge
	return &Publisher{api}, nil
}

// Published is what the bus says of one event.
type Published struct {
	TraceID string // "" where the service gave none
	Code    string // why the event was refused; "" where it was accepted
}

// PutEvents publishes structured CloudEvents, each with its bus in
// aliyuneventbusname, by one call. bus is what errors name. There is one answer
// for each event, in their order: some may be refused though there is no error.
// An *Error of KindThrottled, KindDenied, KindNotFound or KindInvalid says that
// nothing was published, one of KindUnknown that nobody knows. It is never sent
// again by itself.
func (p *Publisher) PutEvents(ctx context.Context, bus string, events [][]byte) ([]Published, error) {
	body := append([]byte{'['}, bytes.Join(events, []byte{','})...)
	body = append(body, ']')
	ans, err := p.api.call(ctx, "PutEvents", bus, "/openapi/putEvents", "application/cloudevents-batch+json; charset=utf-8", body, callTimeout)
	if err != nil {
		return nil, err
	}
	unreadable := &Error{Service: "eventbridge", Op: "PutEvents", Resource: bus, Kind: KindUnknown, Status: http.StatusOK}
	var wire struct {
		FailedEntryCount int
		RequestID        string
		EntryList        []struct{ TraceID, ErrorCode string }
	}
	if json.Unmarshal(ans.body, &wire) != nil {
		return nil, unreadable
	}
	out, failed := make([]Published, len(events)), 0
	if len(wire.EntryList) != len(events) {
		if wire.FailedEntryCount == 0 && wire.RequestID != "" {
			return out, nil // no list of what went well
		}
		return nil, unreadable
	}
	for i, one := range wire.EntryList {
		out[i] = Published{TraceID: safeToken(one.TraceID)}
		if one.ErrorCode != "" {
			failed++
			if out[i].Code = safeToken(one.ErrorCode); out[i].Code == "" {
				out[i].Code = "UnknownError"
			}
		}
	}
	if failed != wire.FailedEntryCount {
		unreadable.RequestID = safeToken(wire.RequestID)
		return nil, unreadable
	}
	return out, nil
}

// signEventBridge signs with HMAC-SHA1, as the data API has it.
func signEventBridge(req *http.Request, _ string, _ []byte, c Credentials, now time.Time, nonce string) {
	req.Header.Set("Date", now.UTC().Format(http.TimeFormat))
	req.Header.Set("x-acs-signature-nonce", nonce)
	req.Header.Set("x-acs-signature-method", "HMAC-SHA1")
	req.Header.Set("x-acs-signature-version", "1.0")
	req.Header.Set("x-eventbridge-version", "2015-06-06")
	if c.SecurityToken != "" {
		req.Header.Set("x-acs-accesskey-id", c.AccessKeyID)
		req.Header.Set("x-acs-security-token", c.SecurityToken)
	}
	signACS1(req, c)
}
