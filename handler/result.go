package handler

import (
	"github.com/oncegate/oncegate/idempotency"
)

// Decision is what became of one delivery.
type Decision string

// The closed set of decisions. A delivery with DecisionRetry or
// DecisionInProgress ends in an error, so that the platform redelivers; every
// other one is acknowledged.
const (
	DecisionExecuted         Decision = "executed"
	DecisionDuplicate        Decision = "duplicate"
	DecisionInProgress       Decision = "in_progress"
	DecisionRetry            Decision = "retry"
	DecisionConflict         Decision = "conflict"
	DecisionFinal            Decision = "final"
	DecisionOutcomeUnknown   Decision = "outcome_unknown"
	DecisionParked           Decision = "parked"
	DecisionWrongEnvironment Decision = "wrong_environment"
	DecisionDeadLetter       Decision = "dead_letter"
)

// Result answers an acknowledged delivery, as JSON.
type Result struct {
	Decision    Decision           `json:"decision"`
	EventID     string             `json:"event_id,omitempty"`
	EventSource string             `json:"event_source,omitempty"`
	Flow        string             `json:"flow,omitempty"`
	Key         string             `json:"idempotency_key,omitempty"`
	Status      idempotency.Status `json:"status,omitempty"`
	Attempt     int64              `json:"attempt,omitempty"`
	ResultRef   string             `json:"result_ref,omitempty"` // object name
	ErrorCode   idempotency.Code   `json:"error_code,omitempty"`
	LetterID    string             `json:"letter_id,omitempty"`
	Reason      string             `json:"reason,omitempty"` // fixed text
}

// RetryError makes the platform deliver the event again. Its text is fixed: the
// runtime prints it, and EventBridge stores it.
type RetryError struct {
	Code   idempotency.Code
	Result Result
	err    error // for the log
}

func (e *RetryError) Error() string {
	if e.Code == idempotency.CodeInProgress {
		return "another delivery of this business is running; deliver again"
	}
	return "not done yet; deliver again"
}

func (e *RetryError) Unwrap() error { return e.err }
