package fctest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Request is one synchronous invocation.
type Request struct {
	Payload    []byte
	RequestID  string // letters, digits, - and _; empty: made here
	RetryCount int    // x-fc-retry-count: FC's own asynchronous retries so far
}

// Response is what InvokeFunction answers.
type Response struct {
	RequestID     string
	StatusCode    int    // 200, also where the function failed
	FunctionError string // X-Fc-Error-Type: empty, or UnhandledInvocationError
	Payload       []byte // the result, or the error JSON
	ErrorType     string // of the error JSON; FC gives none for a crash or a time-out
	ErrorMessage  string // of the error JSON
	Ending        Ending
	Version       string // the version that ran
	Instance      string // the instance that ran it
}

// Ending says how an invocation ended. FC shows it only in the error's text.
type Ending string

// The four endings of an invocation.
const (
	Returned Ending = "returned"
	Failed   Ending = "failed"    // the function returned an error or panicked: its process lives on
	Crashed  Ending = "crashed"   // the process ended, by itself or by Kill
	TimedOut Ending = "timed out" // Options.Timeout passed
)

// UnhandledInvocationError is the X-Fc-Error-Type of everything that goes
// wrong in a Go function.
const UnhandledInvocationError = "UnhandledInvocationError"

// Errors of the platform: the function was not run, or nobody waited for it.
var (
	ErrResourceExhausted = errors.New("429 ResourceExhausted: all instances are busy")
	ErrEntityTooLarge    = fmt.Errorf("400 EntityTooLarge: payload size exceeds maximum allowed size (%d bytes)", MaxPayload)
	ErrClosed            = errors.New("function is closed")
)

// StartError is a binary that never asked for an invocation.
type StartError struct {
	Attempts int
	Reason   string // how the last process ended
	Stderr   string // its last lines, 2 KB at most
	Err      error  // where there was no process at all
}

func (e *StartError) Error() string {
	s := fmt.Sprintf("function did not start (attempts: %d): %s", e.Attempts, e.Reason)
	if e.Stderr != "" {
		s += "; its last lines:\n" + e.Stderr
	}
	return s
}

func (e *StartError) Unwrap() error { return e.Err }

// outcome is an ending with the bytes that go with it.
type outcome struct {
	ending  Ending
	payload []byte
}

// FC appends a duration and a memory figure in brackets to the next two texts;
// they are left out so that the same fault always reads the same.

func crashed() outcome {
	return platformError(Crashed, "Process exited unexpectedly before completing request")
}

func timedOut(seconds int) outcome {
	return platformError(TimedOut, fmt.Sprintf("Function timed out after %d seconds", seconds))
}

// responseTooLarge has a wording of its own: FC's is not documented.
func responseTooLarge() outcome {
	return platformError(Failed, fmt.Sprintf("response size exceeds maximum allowed size (%d bytes)", MaxPayload))
}

func platformError(e Ending, message string) outcome {
	payload, _ := json.Marshal(map[string]string{"errorMessage": message})
	return outcome{e, payload}
}

func (o outcome) response(id string, in *instance) Response {
	r := Response{
		RequestID:  id,
		StatusCode: http.StatusOK,
		Payload:    o.payload,
		Ending:     o.ending,
		Version:    in.fn.o.VersionID,
		Instance:   in.id,
	}
	if o.ending == Returned {
		return r
	}
	r.FunctionError = UnhandledInvocationError
	var wire struct{ ErrorType, ErrorMessage string }
	if json.Unmarshal(o.payload, &wire) == nil {
		r.ErrorType, r.ErrorMessage = wire.ErrorType, wire.ErrorMessage
	}
	return r
}

// lastLines drops the line that a cut left incomplete.
func lastLines(tail []byte, cut bool) string {
	s := string(tail)
	if _, rest, ok := strings.Cut(s, "\n"); cut && ok && rest != "" {
		s = rest
	}
	return strings.TrimSpace(s)
}
