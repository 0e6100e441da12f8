package aliyun

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// invokeTimeout bounds an invocation whose context ends later.
const invokeTimeout = 10 * time.Minute

// Functions invokes functions of Function Compute 3.0. It is safe for
// concurrent use.
type Functions struct{ api *openAPI }

// NewFunctions returns a client of an endpoint such as
// https://<account>.<region>.fc.aliyuncs.com; it makes no call.
func NewFunctions(endpoint string, o Options) (*Functions, error) {
	api, err := newOpenAPI("fc", "2023-03-30", endpoint, o)
	if err != nil {
		return nil, err
	}
	return &Functions{api}, nil
}

// Invocation is a function's answer: its result, or its own failure.
type Invocation struct {
	Payload       []byte
	FunctionError string // X-Fc-Error-Type; "" where the function returned
	ErrorType     string // of the failed function's error; "" for a crash and a time-out
	RequestID     string
	VersionID     string // that ran; "" where the service does not say
}

// Invoke runs a function once and waits for its end. qualifier is a version or
// an alias; "" is LATEST. A fault of the function is an Invocation. An *Error of
// KindThrottled, KindDenied, KindNotFound or KindInvalid says that it did not
// run, one of KindUnknown that nobody knows. It is never sent again.
func (f *Functions) Invoke(ctx context.Context, function, qualifier string, payload []byte) (Invocation, error) {
	path := "/2023-03-30/functions/" + url.PathEscape(function) + "/invocations"
	resource := function
	if qualifier != "" {
		path += "?qualifier=" + url.QueryEscape(qualifier)
		resource += "/" + qualifier
	}
	ans, err := f.api.call(ctx, "InvokeFunction", resource, path, "application/octet-stream", payload, invokeTimeout)
	if err != nil {
		return Invocation{}, err
	}
	out := Invocation{
		Payload: ans.body, FunctionError: safeToken(ans.header.Get("X-Fc-Error-Type")), RequestID: safeToken(ans.header.Get("X-Fc-Request-Id")),
		// FC 2.0 had this header; whether 3.0 sends it was not seen.
		VersionID: safeToken(ans.header.Get("X-Fc-Invocation-Service-Version")),
	}
	if ans.header.Get("X-Fc-Error-Type") != "" {
		if out.FunctionError == "" {
			out.FunctionError = "UnknownError"
		}
		var wire struct{ ErrorType string }
		if json.Unmarshal(ans.body, &wire) == nil {
			out.ErrorType = safeToken(wire.ErrorType)
		}
	}
	return out, nil
}

// AliasVersion reads which version an alias of a function points to. Errors are
// *Error; an alias that is not there is of KindNotFound.
func (f *Functions) AliasVersion(ctx context.Context, function, alias string) (string, error) {
	path := "/2023-03-30/functions/" + url.PathEscape(function) + "/aliases/" + url.PathEscape(alias)
	resource := function + "/aliases/" + alias
	ans, err := f.api.send(ctx, http.MethodGet, "GetAlias", resource, path, "", nil, callTimeout)
	if err != nil {
		return "", err
	}
	var wire struct{ VersionID string }
	if json.Unmarshal(ans.body, &wire) != nil || safeToken(wire.VersionID) == "" {
		return "", &Error{Service: "fc", Op: "GetAlias", Kind: KindUnknown, Resource: resource, Status: http.StatusOK}
	}
	return wire.VersionID, nil
}
