package fctest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// message is what FC sends to the destination of an asynchronous invocation.
type message struct {
	Timestamp       int64           `json:"timestamp"` // ms
	RequestContext  requestContext  `json:"requestContext"`
	RequestPayload  string          `json:"requestPayload"`
	ResponseContext responseContext `json:"responseContext"`
	ResponsePayload string          `json:"responsePayload"`
}

type requestContext struct {
	RequestID              string `json:"requestId"`
	FunctionARN            string `json:"functionArn"`
	Condition              string `json:"condition"`
	ApproximateInvokeCount int    `json:"approximateInvokeCount"`
}

type responseContext struct {
	StatusCode    int    `json:"statusCode"`
	FunctionError string `json:"functionError"`
}

// report tells a destination how the invocation ended. The function's version
// and the qualifier are not in the message, as in FC's.
func (f *Function) report(c *asyncCall, to func(context.Context, []byte), condition string, resp Response) bool {
	if to == nil {
		return true
	}
	m := message{
		Timestamp: f.o.Now().UnixMilli(),
		RequestContext: requestContext{
			RequestID:              c.RequestID,
			FunctionARN:            fmt.Sprintf("acs:fc:%s:%s:functions/%s", f.o.Region, f.o.AccountID, f.o.FunctionName),
			Condition:              condition,
			ApproximateInvokeCount: f.async.count(c, 0),
		},
		RequestPayload:  text(c.Payload),
		ResponseContext: responseContext{resp.StatusCode, resp.FunctionError},
		ResponsePayload: text(resp.Payload),
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(m) // strings and numbers
	to(f.async.ctx, bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return true
}

// text makes a JSON string's value of a payload. What FC does with bytes that
// are not UTF-8 is not documented; here the whole payload becomes base64, so
// that every byte can be had back, where replacement characters would lose some.
func text(payload []byte) string {
	if utf8.Valid(payload) {
		return string(payload)
	}
	return base64.StdEncoding.EncodeToString(payload)
}
