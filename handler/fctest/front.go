package fctest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// Handler serves the function as FC's InvokeFunction does:
//
//	POST /2023-03-30/functions/{name}/invocations?qualifier=
//	x-fc-invocation-type: Sync (default) or Async
//
// A function's own fault is a 200 with X-Fc-Error-Type, an enqueued invocation
// a 202 without a body, what the platform refuses an error JSON with FC's code:
//
//	400 InvalidArgument, EntityTooLarge
//	404 FunctionNotFound, VersionNotFound, AliasNotFound
//	429 ResourceExhausted
//	500 FunctionStartError   the name was chosen here
//	503 ServiceUnavailable   the function is closed
//
// The qualifier is Options.Qualifier or Options.VersionID; without one it is
// LATEST. x-fc-log-type is ignored, x-fc-async-task-id refused. Signatures are
// not checked; Front does that.
func (f *Function) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /2023-03-30/functions/{name}/invocations", f.serveInvocation)
	return mux
}

func (f *Function) serveInvocation(w http.ResponseWriter, r *http.Request) {
	id := newRequestID(f.o.Now())
	w.Header().Set("X-Fc-Request-Id", id)
	if err := f.find(r.PathValue("name"), r.URL.Query().Get("qualifier")); err != nil {
		refuse(w, id, err)
		return
	}
	f.answer(w, r, id)
}

// answer runs an invocation that has found its function.
func (f *Function) answer(w http.ResponseWriter, r *http.Request, id string) {
	async := false
	switch kind := r.Header.Get("X-Fc-Invocation-Type"); kind {
	case "", "Sync":
	case "Async":
		async = true
	default:
		refuse(w, id, invalid("invocation type "+strconv.Quote(kind)+" is neither Sync nor Async"))
		return
	}
	if r.Header.Get("X-Fc-Async-Task-Id") != "" {
		refuse(w, id, invalid("asynchronous tasks are not enabled"))
		return
	}
	limit := MaxPayload
	if async {
		limit = MaxAsyncPayload
	}
	payload, err := io.ReadAll(io.LimitReader(r.Body, int64(limit)+1))
	if err != nil {
		refuse(w, id, invalid("the body could not be read"))
		return
	}
	if len(payload) > limit {
		_, _ = io.CopyN(io.Discard, r.Body, MaxPayload) // else net/http may close the connection before the answer is read
	}
	req := Request{Payload: payload, RequestID: id}
	if async {
		if _, err := f.InvokeAsync(r.Context(), req); err != nil {
			refuse(w, id, err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	resp, err := f.Invoke(r.Context(), req)
	if err != nil {
		refuse(w, id, err)
		return
	}
	if resp.FunctionError != "" {
		w.Header().Set("X-Fc-Error-Type", resp.FunctionError)
	}
	w.Header().Set("X-Fc-Invocation-Service-Version", resp.Version)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(resp.Payload)))
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(resp.Payload)
}

func (f *Function) find(name, qualifier string) error {
	if name != f.o.FunctionName {
		return &apiError{http.StatusNotFound, "FunctionNotFound", fmt.Sprintf("function '%s' does not exist", name)}
	}
	setDefault(&qualifier, "LATEST")
	if qualifier == f.o.Qualifier || qualifier == f.o.VersionID {
		return nil
	}
	if _, err := strconv.ParseUint(qualifier, 10, 64); err == nil || qualifier == "LATEST" {
		return &apiError{http.StatusNotFound, "VersionNotFound", fmt.Sprintf("version '%s' of function '%s' does not exist", qualifier, name)}
	}
	return &apiError{http.StatusNotFound, "AliasNotFound", fmt.Sprintf("alias '%s' of function '%s' does not exist", qualifier, name)}
}

type apiError struct {
	status        int
	code, message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

func invalid(message string) error {
	return &apiError{http.StatusBadRequest, "InvalidArgument", message}
}

// refuse answers what the platform refuses. FC's manual spells the error's
// fields errorCode and errorMessage, its SDKs read Code and Message: both are there.
func refuse(w http.ResponseWriter, id string, err error) {
	e, known := errors.AsType[*apiError](err)
	_, broken := errors.AsType[*StartError](err)
	switch {
	case known:
	case errors.Is(err, ErrEntityTooLarge):
		e = &apiError{http.StatusBadRequest, "EntityTooLarge", err.Error()}
	case errors.Is(err, ErrResourceExhausted):
		e = &apiError{http.StatusTooManyRequests, "ResourceExhausted", err.Error()}
	case broken:
		e = &apiError{http.StatusInternalServerError, "FunctionStartError", "the function did not start"}
	default:
		e = &apiError{http.StatusServiceUnavailable, "ServiceUnavailable", err.Error()}
	}
	body, _ := json.Marshal(map[string]string{
		"RequestId": id, "Code": e.code, "Message": e.message, "errorCode": e.code, "errorMessage": e.message,
	})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	_, _ = w.Write(body)
}
