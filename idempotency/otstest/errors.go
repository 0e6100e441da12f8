package otstest

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"
)

// Codes of the service. The HTTP status and the message that go with them are
// those of its error code reference.
const (
	codeAuthFailed    = "OTSAuthFailed"
	codeParameter     = "OTSParameterInvalid"
	codeBodyTooLarge  = "OTSRequestBodyTooLarge"
	codeMethod        = "OTSMethodNotAllowed"
	codeQuota         = "OTSQuotaExhausted"
	codeCondition     = "OTSConditionCheckFail"
	codeInvalidPK     = "OTSInvalidPK"
	codeNotExist      = "OTSObjectNotExist"
	codeAlreadyExist  = "OTSObjectAlreadyExist"
	codeUnsupported   = "OTSUnsupportOperation"
	codeInternal      = "OTSInternalServerError"
	codeNotReady      = "OTSTableNotReady"
	codeConflict      = "OTSRowOperationConflict"
	codeBusy          = "OTSServerBusy"
	codeStorageBusy   = "OTSStorageServerBusy"
	codePartition     = "OTSPartitionUnavailable"
	codeTimeout       = "OTSTimeout"
	codeUnavailable   = "OTSServerUnavailable"
	codeCapacity      = "OTSCapacityUnitExhausted"
	codeNotEnoughUnit = "OTSNotEnoughCapacityUnit"
	codeNoPermission  = "OTSNoPermissionAccess"
)

// callError is an answer other than 2xx.
type callError struct {
	status  int
	code    string
	message string
}

func (e *callError) Error() string { return e.code + ": " + e.message }

func refuse(status int, code, format string, args ...any) error {
	return &callError{status, code, fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error {
	return refuse(http.StatusBadRequest, codeParameter, format, args...)
}

func authFailed(format string, args ...any) error {
	return refuse(http.StatusForbidden, codeAuthFailed, format, args...)
}

func invalidPK(format string, args ...any) error {
	return refuse(http.StatusBadRequest, codeInvalidPK, format, args...)
}

// documented is the answer of a code that always says the same.
func documented(code string) error {
	status := http.StatusServiceUnavailable
	switch code {
	case codeCondition, codeCapacity, codeNotEnoughUnit, codeQuota, codeNoPermission, codeAuthFailed:
		status = http.StatusForbidden
	case codeNotExist, codeNotReady:
		status = http.StatusNotFound
	case codeAlreadyExist, codeConflict:
		status = http.StatusConflict
	case codeInternal:
		status = http.StatusInternalServerError
	case codeBodyTooLarge:
		status = http.StatusRequestEntityTooLarge
	case codeMethod:
		status = http.StatusMethodNotAllowed
	case codeParameter, codeInvalidPK, codeUnsupported:
		status = http.StatusBadRequest
	}
	return &callError{status, code, message(code)}
}

func message(code string) string {
	switch code {
	case codeCondition:
		return "Condition check failed."
	case codeInvalidPK:
		return "Primary key schema mismatch."
	case codeNotExist:
		return "Requested table does not exist."
	case codeAlreadyExist:
		return "Requested table already exists."
	case codeInternal:
		return "Internal server error."
	case codeNotReady:
		return "The table is not ready."
	case codeConflict:
		return "Data is being modified by the other request."
	case codeBusy:
		return "Server is busy."
	case codeStorageBusy:
		return "Storage server is busy."
	case codePartition:
		return "The partition is not available."
	case codeTimeout:
		return "Operation timeout."
	case codeUnavailable:
		return "Server is not available."
	case codeCapacity, codeNotEnoughUnit:
		return "Capacity unit is not enough."
	case codeBodyTooLarge:
		return "The size of POST data is too large."
	case codeMethod:
		return "Only POST method for requests is supported."
	case codeQuota:
		return "Number of tables exceeded the quota."
	case codeNoPermission:
		return "You have no permission to access the requested resource."
	case codeAuthFailed:
		return "Signature mismatch."
	case codeUnsupported:
		return "The operation is not supported."
	}
	return code
}

// asCallError classifies whatever went wrong in a call.
func asCallError(err error) *callError {
	if e, ok := errors.AsType[*callError](err); ok {
		return e
	}
	return &callError{http.StatusInternalServerError, codeInternal, message(codeInternal)}
}

// pb is the error as rows of a batch carry it.
func (e *callError) pb() *otsprotocol.Error {
	return &otsprotocol.Error{Code: proto.String(e.code), Message: proto.String(e.message)}
}
