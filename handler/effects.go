package handler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
)

// ledger is one run's view of its task's effects.
type ledger struct {
	*delivery
	// known is the record with what is known of its effects now.
	known idempotency.Record
	rows  map[string]*idempotency.Effect // by name; nil where the effect has no row yet
	doubt *idempotency.Effect            // the effect that a person has to look at
}

// openLedger reads the rows of effects that an earlier attempt may have left.
func (d *delivery) openLedger(ctx context.Context, rec idempotency.Record) (*ledger, error) {
	l := &ledger{delivery: d, known: rec, rows: map[string]*idempotency.Effect{}}
	// A fence that use_new has left is there before the first attempt.
	if rec.Attempt <= 1 && len(rec.SupersededDigests) == 0 {
		return l, nil
	}
	for _, e := range rec.Effects {
		row, ok, err := d.o.Ledger.Get(ctx, e.Key)
		if err != nil {
			return nil, err
		}
		if ok {
			l.note(row)
		} else {
			l.known = l.known.Knows(idempotency.TaskEffect{Name: e.Name, Key: e.Key, Kind: e.Kind})
		}
	}
	return l, nil
}

// spec is an effect as declared, with the margin that all clocks here share.
func (l *ledger) spec(declared *flows.DeclaredEffect) idempotency.EffectSpec {
	s := declared.EffectSpec
	s.Margin = l.o.Policy.Margin
	return s
}

// note remembers what is known of an effect.
func (l *ledger) note(e idempotency.Effect) {
	l.rows[e.Name] = &e
	l.known = l.known.Knows(e.In())
}

// madeFrom is the output that an effect of this task was made from already.
func (l *ledger) madeFrom() idempotency.Ref {
	for _, e := range l.known.Effects {
		row := l.rows[e.Name]
		if row != nil && row.State != idempotency.EffectRefused {
			return row.OutputRef
		}
	}
	return idempotency.Ref{}
}

// run carries out every declared effect that is not settled yet, in order. A
// failure says why the task cannot succeed now; with l.doubt set a person has to
// look first.
func (l *ledger) run(ctx context.Context, output artifacts.Stored, s span) (*idempotency.Failure, error) {
	for _, e := range l.known.Effects {
		if failure, err := l.one(ctx, e, output, s); failure != nil {
			return failure, err
		}
	}
	return nil, nil
}

// one brings one effect to its end, or says why it cannot now.
func (l *ledger) one(ctx context.Context, e idempotency.TaskEffect, output artifacts.Stored, s span) (*idempotency.Failure, error) {
	target := "effect:" + e.Name
	row := l.rows[e.Name]
	declared := l.flow.Effect(e.Name)
	if declared == nil {
		return l.undeclared(ctx, row, target)
	}
	call := l.call(e, declared, output.Body)
	move, until := idempotency.NextMove(row, l.spec(declared), l.o.Now())
	if move == idempotency.MoveLookUp {
		found, err := l.lookUp(ctx, row, declared, call, declared.Timeout)
		if errors.Is(err, flows.ErrSeveral) {
			return l.several(ctx, row, target)
		}
		if err != nil {
			return lostFailure(ctx, target, "the look-up failed"), err
		}
		if found {
			return nil, nil
		}
		move = idempotency.MoveSend
	}
	switch move {
	case idempotency.MoveDone:
		return nil, nil
	case idempotency.MoveWait:
		return &idempotency.Failure{
			Code: idempotency.CodeTimeout, Target: target, Summary: "the answer was lost, and the target may not show it yet", Window: until.Sub(l.o.Now()),
		}, nil
	case idempotency.MoveUnknown:
		return l.doubtful(ctx, row, target)
	}
	// The request must end before the lease does, or another owner sends it too.
	if now := l.o.Now(); now.Add(declared.Timeout).After(s.workEnd) {
		return &idempotency.Failure{Code: idempotency.CodeTimeout, Target: target, Summary: "the run has less time left than the effect may take"}, nil
	}
	key := idempotency.Key{Hex: e.Key}
	if own, err := declared.Key(l.known.Key, l.input, l.o.KeySecret); err == nil && own.Hex == e.Key {
		key = own
	}
	sent, err := l.o.Ledger.Send(ctx, row, idempotency.Sending{
		Key: key, Spec: declared.EffectSpec, Task: l.known, OutputRef: output.Ref, Now: l.o.Now(),
	})
	if err != nil {
		if errors.Is(err, idempotency.ErrSentElsewhere) {
			l.note(sent)
		} else {
			// Its row may be there: the task must not end before that is known.
			l.known = l.known.Knows(idempotency.TaskEffect{
				Name: e.Name, Key: e.Key, Kind: declared.Kind, State: idempotency.EffectSent, Outcome: idempotency.OutcomeSentUnknown,
			})
		}
		return storageFailure("ots:", err), err
	}
	l.note(sent)
	return l.send(ctx, sent, row, sent.SentAt.Add(declared.Timeout), declared, call)
}

// undeclared is what becomes of an effect that this version of the flow no
// longer has: nothing can be sent or looked up for it.
func (l *ledger) undeclared(ctx context.Context, row *idempotency.Effect, target string) (*idempotency.Failure, error) {
	switch {
	case row == nil || row.State == idempotency.EffectRefused:
		return &idempotency.Failure{
			Code: idempotency.CodeTargetNotFound, Target: target, Summary: "this version of the flow does not declare the effect",
		}, nil
	case row.State == idempotency.EffectSettled:
		return nil, nil
	}
	return l.doubtful(ctx, row, target)
}

func (l *ledger) call(e idempotency.TaskEffect, declared *flows.DeclaredEffect, output []byte) flows.EffectCall {
	return flows.EffectCall{
		Key: e.Key, Name: e.Name, TaskKey: l.known.Key, RequestID: "oncegate-" + l.known.Key[:32],
		Fields: declared.Values(l.input), Payload: l.input.Payload(), Output: output,
	}
}

// lookUp asks a readable target whether it has the effect; found settles it.
func (l *ledger) lookUp(ctx context.Context, row *idempotency.Effect, declared *flows.DeclaredEffect, call flows.EffectCall, limit time.Duration) (found bool, err error) {
	reader, ok := l.o.Effects[declared.Uses].(flows.Reader)
	if !ok {
		return false, fmt.Errorf("effect %s cannot look anything up", declared.Uses)
	}
	id, found, err := guardedFind(ctx, reader, call, limit)
	if err != nil || !found {
		return false, err
	}
	settled, err := l.o.Ledger.Settle(ctx, *row, l.known.Owner, l.o.Now(), id, idempotency.OutcomeTargetExists)
	if err != nil {
		return false, err
	}
	l.note(settled)
	return true, nil
}

// send sends the one request of an effect whose row says SENT, and writes what
// came of it. before is the row as it was until then, nil for none. Whoever finds
// out later counts from sent_at, so all is over by until or has not left.
func (l *ledger) send(
	ctx context.Context, sent idempotency.Effect, before *idempotency.Effect, until time.Time, declared *flows.DeclaredEffect, call flows.EffectCall,
) (*idempotency.Failure, error) {
	target := "effect:" + sent.Name
	// A target may refuse a copy and have done the first one.
	isCopy := before != nil && before.State == idempotency.EffectSent && sent.Kind == idempotency.TargetIdempotent
	if sent.Kind == idempotency.TargetReadable && (before == nil || before.State == idempotency.EffectRefused) {
		found, err := l.lookUp(ctx, &sent, declared, call, until.Sub(l.o.Now()))
		switch {
		case found:
			return nil, nil
		case errors.Is(err, flows.ErrSeveral):
			return l.several(ctx, &sent, target)
		case err != nil:
			// Nothing has left yet, so this is a definite no.
			f := lostFailure(ctx, target, "the look-up before the write failed")
			return l.refused(ctx, sent, *f, err)
		}
	}
	left := until.Sub(l.o.Now())
	if left <= 0 && !isCopy {
		return l.refused(ctx, sent, *lostFailure(ctx, target, "the time was over before the request left"), nil)
	}
	recordID, err := l.request(ctx, declared, call, left)
	owner, now := l.known.Owner, l.o.Now()
	var exists *flows.Exists
	var refusal *flows.Error
	var settled idempotency.Effect
	switch {
	case err == nil:
		id, another := l.readBack(ctx, declared, call, recordID, until.Sub(now))
		if another {
			// Two records of one number, or a number that is somebody else's.
			return l.several(ctx, &sent, target)
		}
		settled, err = l.o.Ledger.Settle(ctx, sent, owner, l.o.Now(), id, "")
	case errors.As(err, &exists):
		settled, err = l.o.Ledger.Settle(ctx, sent, owner, now, exists.RecordID, idempotency.OutcomeTargetExists)
	case errors.As(err, &refusal):
		f := refusal.Failure
		if f.Code == "" || f.Code == idempotency.CodeInProgress {
			f.Code = idempotency.CodeUnclassified
		}
		if isCopy {
			return &f, err
		}
		return l.refused(ctx, sent, f, err)
	case sent.Kind == idempotency.TargetOpaque:
		return l.doubtful(ctx, &sent, target)
	default:
		sent.Outcome = idempotency.OutcomeSentUnknown
		l.note(sent)
		f := lostFailure(ctx, target, "the target's answer was lost")
		if sent.Kind == idempotency.TargetReadable {
			f.Window = sent.SentAt.Add(sent.Timeout + declared.VisibleAfter + l.o.Policy.Margin).Sub(now)
		}
		return f, err
	}
	if err != nil {
		return storageFailure("ots:", err), err
	}
	l.note(settled)
	return nil, nil
}

// readBack asks a readable target for what it has just made, and returns the
// number to keep. A record that does not show yet is no fault; another number
// than the answer's is.
func (l *ledger) readBack(ctx context.Context, declared *flows.DeclaredEffect, call flows.EffectCall, answered string, limit time.Duration) (id string, another bool) {
	reader, ok := l.o.Effects[declared.Uses].(flows.Reader)
	if !ok || declared.Kind != idempotency.TargetReadable || limit <= 0 {
		return answered, false
	}
	found, there, err := guardedFind(ctx, reader, call, limit)
	switch {
	case errors.Is(err, flows.ErrSeveral):
		return answered, true
	case err != nil, !there, found == "":
		return answered, false
	case answered == "":
		return found, false
	}
	return answered, found != answered
}

// request runs the effect's one request within its time-out.
func (l *ledger) request(ctx context.Context, declared *flows.DeclaredEffect, call flows.EffectCall, limit time.Duration) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("effect: panic of type %T", p)
		}
	}()
	return l.o.Effects[declared.Uses].Send(ctx, call)
}

func guardedFind(ctx context.Context, r flows.Reader, call flows.EffectCall, limit time.Duration) (id string, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("effect: panic of type %T", p)
		}
	}()
	return r.Find(ctx, call)
}

// refused writes a definite no; the class of its code decides the task's fate.
func (l *ledger) refused(ctx context.Context, sent idempotency.Effect, f idempotency.Failure, cause error) (*idempotency.Failure, error) {
	if f.Target == "" {
		f.Target = "effect:" + sent.Name
	}
	refused, err := l.o.Ledger.Refuse(ctx, sent, l.known.Owner, l.o.Now(), f)
	if err != nil {
		return storageFailure("ots:", err), err
	}
	l.note(refused)
	return &f, cause
}

// lostFailure is a failure after which the next attempt finds out.
func lostFailure(ctx context.Context, target, summary string) *idempotency.Failure {
	code := idempotency.CodeTemporaryUnavailable
	if ctx.Err() != nil {
		code = idempotency.CodeTimeout
	}
	return &idempotency.Failure{Code: code, Target: target, Summary: summary}
}
