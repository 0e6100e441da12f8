package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/internal/messages"
)

// Approver records verdicts on plans, and what operators want of their runs.
type Approver struct {
	Plans    *plan.Store
	Evidence *EvidenceLog
	Audit    *AuditLog
	Now      func() time.Time
}

// May says whether a verdict may be given: on the plan as it stands, by this
// identity, with the evidence that it was made with.
func (v *Approver) May(ctx context.Context, p plan.Plan, given plan.Approval) error {
	stored, err := v.Plans.Approval(ctx, p.ID)
	if err != nil {
		return err
	}
	if stored = p.Given(stored); stored != nil {
		return &RefusedError{Gate{Name: GateApproval, Reason: messages.T("it was %s by %s already", stored.Verdict, stored.By)}}
	}
	refuse := func(err error) error {
		v.refused(ctx, p, given, err.Error())
		return &RefusedError{Gate{Name: GateApproval, Reason: messages.Of(err)}}
	}
	if given.Verdict == plan.VerdictRejected {
		if p.State.Ended() {
			return refuse(plan.ErrPlanOver)
		}
		return nil
	}
	if err := plan.CheckApproval(p, &given); err != nil {
		return refuse(err)
	}
	err = unchanged(ctx, v.Evidence, v.Plans, p)
	if refused := new(RefusedError); errors.As(err, &refused) {
		return refuse(&messages.Error{Text: refused.Gate.Reason})
	}
	return err
}

func (v *Approver) refused(ctx context.Context, p plan.Plan, given plan.Approval, why string) {
	_ = v.Audit.Add(ctx, Audit{
		ID: AuditID(ActionRefused, p.ID, "approval", given.By, string(given.Verdict), fmt.Sprint(given.At.UnixMilli())), At: given.At, Action: ActionRefused,
		Fingerprint: p.Fingerprint, ReplayBatchID: p.ID, OriginalTarget: p.Target, OperatorOrRule: given.By, Reason: "approval: " + why,
	})
}

// Decide records a verdict: the first one holds. The audit row comes first: a
// verdict without one must not be.
func (v *Approver) Decide(ctx context.Context, p plan.Plan, given plan.Approval) error {
	if err := v.May(ctx, p, given); err != nil {
		return err
	}
	action := ActionApprove
	if given.Verdict == plan.VerdictRejected {
		action = ActionReject
	}
	if err := v.Audit.Add(ctx, Audit{
		ID: AuditID(action, p.ID, given.By), At: given.At, Action: action, Fingerprint: p.Fingerprint, ReplayBatchID: p.ID,
		OriginalTarget: p.Target, OperatorOrRule: given.By, Reason: said("", given.Reason) + " digest " + given.Digest,
	}); err != nil {
		return err
	}
	var err error
	if given.By == p.MadeBy {
		// The maker's own word stands in the plan's row: it has no right to the other table.
		next := p
		next.UpdatedAt = milli(given.At)
		if given.Verdict == plan.VerdictRejected {
			next.State, next.StoppedBy, next.StopReason = plan.StateRejected, given.By, given.Reason
		} else {
			next.SelfDigest, next.SelfAt, next.SelfReason = given.Digest, milli(given.At), given.Reason
		}
		_, err = v.Plans.Update(ctx, p, next)
	} else {
		err = v.Plans.Decide(ctx, given)
	}
	if errors.Is(err, plan.ErrVerdict) || errors.Is(err, plan.ErrChanged) {
		return &RefusedError{Gate{Name: GateApproval, Reason: messages.T("somebody else has changed the plan or its verdict meanwhile: look at it again")}}
	}
	return err
}

// Control changes what a plan's run may do: pause, resume (to a planned or waiting
// run) or stop, and says why.
func (v *Approver) Control(ctx context.Context, planID string, want plan.State, by, reason string) (plan.Plan, error) {
	for range 10 {
		p, ok, err := v.Plans.Get(ctx, planID)
		if err != nil {
			return plan.Plan{}, err
		}
		if !ok {
			return plan.Plan{}, messages.Errorf("there is no plan %s", planID)
		}
		if err := mayControl(p.State, want); err != nil {
			return p, err
		}
		if p.State == want {
			return p, nil
		}
		action := ActionPause
		if want == plan.StateStopped {
			action = ActionStop
		}
		if err := v.Audit.Add(ctx, Audit{
			ID: AuditID(action, p.ID, string(want), fmt.Sprint(p.Revision), by), At: v.Now(), Action: action, Fingerprint: p.Fingerprint, ReplayBatchID: p.ID,
			OriginalTarget: p.Target, FinalStatus: string(want), OperatorOrRule: by, Reason: reason,
		}); err != nil {
			return p, err
		}
		next := p
		next.State, next.StoppedBy, next.StopReason, next.UpdatedAt = want, by, reason, milli(v.Now())
		if want == plan.StateStopped && !v.Now().Before(p.LockUntil) {
			next.LockOwner, next.LockUntil = "", time.Time{}
		}
		stored, err := v.Plans.Update(ctx, p, next)
		if errors.Is(err, plan.ErrChanged) {
			continue
		}
		return stored, err
	}
	return plan.Plan{}, messages.Errorf("the plan is written by others all the time: try again")
}

func mayControl(is, want plan.State) error {
	switch {
	case is == want:
		return nil
	case is.Ended():
		return &RefusedError{Gate{Name: GateApproval, Reason: messages.T("the plan has ended: %s", is)}}
	case want == plan.StatePaused && is != plan.StateRunning:
		return &RefusedError{Gate{Name: GateApproval, Reason: messages.T("nothing runs that could be paused: the plan is %s", is)}}
	case want == plan.StateRunning && is != plan.StatePaused:
		return &RefusedError{Gate{Name: GateApproval, Reason: messages.T("the plan is not paused: it is %s", is)}}
	}
	return nil
}
