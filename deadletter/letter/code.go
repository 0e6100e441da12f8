package letter

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/oncegate/oncegate/idempotency"
)

// Code says why an event did not end in success, in the words that operators
// of dead letters group and decide by.
type Code string

// The codes that oncegate itself gives. Messages from elsewhere may carry others.
const (
	CodeTimeout          Code = "TIMEOUT"
	CodeThrottled        Code = "THROTTLED"
	CodeUpstream5xx      Code = "UPSTREAM_5XX"
	CodeInvalidSchema    Code = "INVALID_SCHEMA"
	CodeAccessDenied     Code = "ACCESS_DENIED"
	CodeTargetNotFound   Code = "TARGET_NOT_FOUND"
	CodePolicyRejected   Code = "POLICY_REJECTED"
	CodeUnclassified     Code = "UNCLASSIFIED"
	CodeUndelivered      Code = "UNDELIVERED" // the function was never reached
	CodeConflict         Code = "CONFLICT"
	CodeOutcomeUnknown   Code = "OUTCOME_UNKNOWN"
	CodeParked           Code = "PARKED"
	CodeWrongEnvironment Code = "WRONG_ENVIRONMENT"
)

// Class is what a code says about trying again.
type Class string

const (
	// ClassTransient: the same event may succeed later.
	ClassTransient Class = "transient"
	// ClassPermanent: something must be repaired first.
	ClassPermanent Class = "permanent"
	// ClassUncertain: a person has to look.
	ClassUncertain Class = "uncertain"
)

// Class returns the class of a code; every code outside the known sets is uncertain.
func (c Code) Class() Class {
	switch c {
	case CodeTimeout, CodeThrottled, CodeUpstream5xx:
		return ClassTransient
	case CodeInvalidSchema, CodeAccessDenied, CodeTargetNotFound, CodePolicyRejected:
		return ClassPermanent
	default:
		return ClassUncertain
	}
}

// CodeOf is the letter's code for a record's last error code. A record without
// a code died without a word: TIMEOUT.
func CodeOf(c idempotency.Code) Code {
	switch c {
	case idempotency.CodeTimeout, "":
		return CodeTimeout
	case idempotency.CodeRateLimited:
		return CodeThrottled
	case idempotency.CodeTemporaryUnavailable:
		return CodeUpstream5xx
	case idempotency.CodeInvalidRequest:
		return CodeInvalidSchema
	case idempotency.CodePermissionDenied:
		return CodeAccessDenied
	case idempotency.CodeTargetNotFound:
		return CodeTargetNotFound
	case idempotency.CodePolicyRejected:
		return CodePolicyRejected
	default:
		return CodeUnclassified
	}
}

// Fingerprint is version 1 of the group of a letter: the first 12 hex digits of
// SHA-256 of code, "|" and target. Text never enters it, so one fault is one
// group whatever its message says.
func Fingerprint(code Code, target string) string {
	sum := sha256.Sum256([]byte(string(code) + "|" + target))
	return hex.EncodeToString(sum[:])[:12]
}
