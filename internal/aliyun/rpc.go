package aliyun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// rpc makes a call of OpenAPI's RPC style: POST / with the operation in a header,
// and parameters in the query or as a form, whichever the operation wants. out
// gets the answer's field Data. A refusal may come as a 200 whose Success is
// false. Errors are *Error.
func (a *openAPI) rpc(ctx context.Context, op, resource string, query, form url.Values, out any) error {
	path, contentType := "/", ""
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	if len(form) > 0 {
		contentType = "application/x-www-form-urlencoded"
	}
	ans, err := a.call(ctx, op, resource, path, contentType, []byte(form.Encode()), callTimeout)
	if err != nil {
		return err
	}
	var wire struct {
		Code      json.RawMessage // a text, or a number
		RequestID string
		Success   *bool
		Data      json.RawMessage
	}
	failed := &Error{Service: a.service, Op: op, Resource: resource, Kind: KindUnknown, Status: http.StatusOK}
	if err := json.Unmarshal(ans.body, &wire); err != nil {
		failed.err = fmt.Errorf("read the answer of %s: it is no JSON object", op)
		return failed
	}
	failed.RequestID = safeToken(wire.RequestID)
	if wire.Success != nil && !*wire.Success {
		failed.Code = safeToken(strings.Trim(string(wire.Code), `"`))
		failed.refused()
		return failed
	}
	if len(wire.Data) == 0 || bytes.Equal(wire.Data, []byte("null")) || json.Unmarshal(wire.Data, out) != nil {
		failed.err = fmt.Errorf("read the answer of %s: it has no Data that can be read", op)
		return failed
	}
	return nil
}

// refused classifies a 200 that says no, by its code.
func (e *Error) refused() {
	switch {
	case strings.HasSuffix(e.Code, "NotExist"), strings.HasSuffix(e.Code, "NotExisted"), strings.HasSuffix(e.Code, "NotFound"), e.Code == "404":
		e.Kind = KindNotFound
	case strings.HasPrefix(e.Code, "AccessDenied"), strings.HasPrefix(e.Code, "Forbidden"), e.Code == "NoPermission", e.Code == "403":
		e.Kind = KindDenied
	case strings.HasPrefix(e.Code, "Throttling"):
		e.Kind = KindThrottled
	case e.Code != "":
		e.Kind = KindInvalid
	}
}
