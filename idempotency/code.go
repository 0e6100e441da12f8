package idempotency

// Code says why a run or a delivery did not succeed. Codes come from HTTP
// statuses and SDK error codes, never from text.
type Code string

// The closed set of codes.
const (
	CodeTimeout              Code = "timeout"
	CodeRateLimited          Code = "rate_limited"
	CodeTemporaryUnavailable Code = "temporary_unavailable"

	CodeInvalidRequest   Code = "invalid_request"
	CodePermissionDenied Code = "permission_denied"
	CodePolicyRejected   Code = "policy_rejected"
	CodeTargetNotFound   Code = "target_not_found"

	// CodeDuplicateEffect: the target shows a side effect of ours more than once.
	// A person has to look; nothing goes on by itself.
	CodeDuplicateEffect Code = "duplicate_effect"

	CodeUnclassified Code = "unclassified"

	// CodeInProgress answers a delivery whose business another owner is
	// running. It is never stored.
	CodeInProgress Code = "in_progress"
)

// Class is what follows from a code.
type Class string

const (
	// ClassRetryable failures are tried again until the attempt budget is used up.
	ClassRetryable Class = "retryable"
	// ClassFinal failures are not tried again without a repair.
	ClassFinal Class = "final"
	// ClassUnknown failures are tried twice at most.
	ClassUnknown Class = "unknown"
)

// Class returns the class of a code; a code outside the set is ClassUnknown.
func (c Code) Class() Class {
	switch c {
	case CodeTimeout, CodeRateLimited, CodeTemporaryUnavailable, CodeInProgress:
		return ClassRetryable
	case CodeInvalidRequest, CodePermissionDenied, CodePolicyRejected, CodeTargetNotFound, CodeDuplicateEffect:
		return ClassFinal
	default:
		return ClassUnknown
	}
}
