package aliyun

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
)

// Kind is what a failed call means for its caller.
type Kind string

const (
	// KindCondition: the service says that the condition of this write does not
	// hold. It may not hold because an earlier, lost answer was a success: read
	// the row before believing it.
	KindCondition Kind = "condition_failed"
	// KindUnknown: nobody knows whether the call took effect.
	KindUnknown Kind = "outcome_unknown"
	// KindThrottled: not applied, the service asks for fewer calls.
	KindThrottled Kind = "throttled"
	// KindDenied: credentials or policies refuse the call.
	KindDenied Kind = "denied"
	// KindNotFound: the table, bucket or object is not there.
	KindNotFound Kind = "not_found"
	// KindExists: the table or bucket is there already.
	KindExists Kind = "exists"
	// KindInvalid: the service refuses the request itself.
	KindInvalid Kind = "invalid"
)

// Error is a failed call of a cloud service. Its text holds the service's code
// and request id, never the service's message.
type Error struct {
	Service   string // tablestore, oss, fc, sts, eventbridge or mns
	Op        string
	Resource  string // what the call was about: a table, an object or bucket, a function; "" where it is not known
	Kind      Kind
	Code      string // the service's error code, "" for a failed connection
	Status    int    // HTTP status, 0 where there was no answer
	RequestID string
	// RetryAfter is how long the service asks to wait; 0 where it did not say.
	RetryAfter time.Duration
	err        error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("call %s %s: %s", e.Service, e.Op, e.Kind)
	if e.Code != "" {
		text += " (" + e.Code + ")"
	}
	if e.RequestID != "" {
		text += " request " + e.RequestID
	}
	return text
}

// Unwrap returns what the SDK said; errors.Is finds context errors in it.
func (e *Error) Unwrap() error { return e.err }

// KindOf returns the kind of a call's error, KindUnknown for any other error.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindUnknown
}

// about notes what a failed call was about.
func about(resource string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.Resource = resource
	}
	return err
}

func tablestoreError(op string, err error) error {
	e := &Error{Service: "tablestore", Op: op, Kind: KindUnknown, err: err}
	var ots *tablestore.OtsError
	if !errors.As(err, &ots) {
		e.Code = noConnection(err)
		return e
	}
	e.Code, e.Status, e.RequestID = safeToken(ots.Code), ots.HttpStatusCode, safeToken(ots.RequestId)
	switch ots.Code {
	case "OTSConditionCheckFail":
		e.Kind = KindCondition
	case "OTSRowOperationConflict", "OTSNotEnoughCapacityUnit", "OTSCapacityUnitExhausted", "OTSTableNotReady",
		"OTSQuotaExhausted", "OTSTooFrequentReservedThroughputAdjustment":
		e.Kind = KindThrottled
	case "OTSAuthFailed", "OTSNoPermissionAccess":
		e.Kind = KindDenied
	case "OTSObjectNotExist":
		e.Kind = KindNotFound
	case "OTSObjectAlreadyExist":
		e.Kind = KindExists
	default:
		if ots.HttpStatusCode >= 400 && ots.HttpStatusCode < 500 && strings.HasPrefix(ots.Code, "OTS") &&
			ots.Code != "OTSClientUnknownError" && ots.Code != "OTSRequestTimeout" {
			e.Kind = KindInvalid
		}
	}
	return e
}

func ossError(op string, err error) error {
	e := &Error{Service: "oss", Op: op, Kind: KindUnknown, err: err}
	var se oss.ServiceError
	var status oss.UnexpectedStatusCodeError
	switch {
	case errors.As(err, &se):
		e.Code, e.Status, e.RequestID = safeToken(se.Code), se.StatusCode, safeToken(se.RequestID)
	case errors.As(err, &status):
		e.Status = status.Got()
	default:
		e.Code = noConnection(err)
		return e
	}
	switch {
	case e.Code == "FileAlreadyExists":
		e.Kind = KindCondition
	case e.Code == "BucketAlreadyExists":
		e.Kind = KindExists
	case e.Code == "RequestTimeout", e.Status == 408, e.Status >= 500 && e.Code == "", e.Status == 0:
	case e.Status == 401, e.Status == 403:
		e.Kind = KindDenied
	case e.Status == 404:
		e.Kind = KindNotFound
	case e.Status == 429, strings.HasSuffix(e.Code, "LimitExceeded"):
		e.Kind = KindThrottled
	case e.Status >= 400 && e.Status < 500:
		e.Kind = KindInvalid
	}
	return e
}

// noConnection names a call that never left: a name that does not resolve, or
// an address where nobody listens.
func noConnection(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return "NoConnection"
	}
	return ""
}

// safeToken keeps codes and ids and drops anything that could be a text with
// data in it.
func safeToken(s string) string {
	if len(s) > 64 {
		return ""
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.' {
			return ""
		}
	}
	return s
}
