package doctor

import (
	"time"

	"github.com/oncegate/oncegate/internal/messages"
)

const (
	// maxInvocation is the longest that EventBridge lets an invocation last.
	// https://www.alibabacloud.com/help/en/functioncompute/fc/advanced-features-of-triggers
	maxInvocation = 300 * time.Second
	// batchWorkers is how many members of a batch run at once.
	batchWorkers = 16
	// perLetter is what taking one letter in lasts at worst: a handful of calls.
	perLetter = 2 * time.Second
)

// timed notes what judging the times of a run needs; ok is false where it is missing.
func (j *judgement) timed(f Facts) (routes []route, flows []Flow, ok bool) {
	if f.Deployed.Missing != nil {
		j.missing(f.Deployed.Missing, Fail)
		return nil, nil, false
	}
	if f.Flows.Missing != nil {
		j.missing(f.Flows.Missing, Fail)
		return nil, nil, false
	}
	routes, ok = j.blind(f)
	return routes, f.enabled(), ok
}

// schedule is a route's, noting one that is not known.
func (j *judgement) schedule(r route) (schedule, bool) {
	s, known := scheduleOf(r.Retry)
	if !known {
		j.missing(&Missing{Reason: Unreadable, What: "PushRetryStrategy of " + r.rule, Where: r.Retry}, Fail)
	}
	return s, known
}

// work is how long the work of one invocation may take.
func (d Function) work() time.Duration {
	return d.Timeout - min(max(d.Timeout/10, d.ReserveMin), d.ReserveMax)
}

// longest is what one run of a flow lasts at worst; a model call that has no
// time-out of its own takes what is left, so it counts for nothing here.
func (d Function) longest(one Flow) time.Duration {
	total := time.Duration(0)
	if one.UsesModel {
		total = d.ModelTimeout
	}
	for _, e := range one.Effects {
		total += e.Timeout
	}
	return total
}

func judgeBatch(f Facts) Check {
	j := about("batch", messages.T("what one invocation is given ends within its time-out, or within its deliveries"))
	routes, flows, ok := j.timed(f)
	if !ok {
		return j.check()
	}
	d := f.Deployed.Value
	work := d.work()
	deliveries := 1 << 30
	for _, r := range routes {
		if s, known := j.schedule(r); known {
			deliveries = min(deliveries, s.deliveries)
		}
	}
	size := 1
	for _, s := range f.Streams.Value {
		if s.Function == f.Function {
			size = max(size, s.Batch)
			if plan, known := scheduleOf(s.Retry); known {
				deliveries = min(deliveries, plan.deliveries)
			}
		}
	}
	for _, one := range flows {
		for _, e := range one.Effects {
			if e.Timeout >= work {
				j.fail(messages.T("flow %s: effect %s may take %s, and a run has %s", one.Name, e.Name, span(e.Timeout), span(work)),
					messages.T("raise the function's time-out, or lower the effect's `timeout`: this one never starts"))
			}
		}
		last := d.longest(one)
		switch {
		case last > work:
			j.warn(messages.T("flow %s: a run may take %s, and it has %s", one.Name, span(last), span(work)),
				messages.T("raise the function's time-out, or lower ONCEGATE_MODEL_TIMEOUT and the effects' `timeout`: else a slow run needs further deliveries"))
		case size > 1 && work > 0:
			if one.UsesModel && d.ModelTimeout == 0 {
				last = work
			}
			each := batchWorkers * int(work/max(last, time.Second))
			switch needs := (size + each - 1) / each; {
			case needs > deliveries:
				j.fail(messages.T("a batch of %d needs %d deliveries at worst, and there are %d", size, needs, deliveries), messages.T("lower the stream's batch to %d", each*deliveries))
			case needs > 1:
				j.warn(messages.T("a batch of %d needs %d deliveries at worst", size, needs), messages.T("lower the stream's batch to %d", each))
			}
		}
	}
	j.intakeBatch(f)
	j.note(messages.T("batches of %d, %s for the work", size, span(work)))
	return j.check()
}

// intakeBatch judges what streams give to the intake, whose failure blocks the stream.
func (j *judgement) intakeBatch(f Facts) {
	switch {
	case f.Streams.Missing != nil:
		j.missing(f.Streams.Missing, Fail)
		return
	case f.TakesIn.Missing != nil:
		j.missing(f.TakesIn.Missing, Fail)
		return
	}
	for _, s := range f.Streams.Value {
		if needs := time.Duration(s.Batch) * perLetter; s.Function == f.Intake && needs > f.TakesIn.Value.Timeout {
			j.fail(messages.T("stream %s gives the intake %d letters at once, %s at worst, and its time-out is %s", s.Name, s.Batch, span(needs), span(f.TakesIn.Value.Timeout)),
				messages.T("lower the stream's batch to %d, or raise the intake's time-out: a batch that cannot end blocks the stream", int(f.TakesIn.Value.Timeout/perLetter)))
		}
	}
}

func judgeBackoff(f Facts) Check {
	j := about("backoff", messages.T("the waits of a flow's attempts fit into the time in which the platform delivers again"))
	routes, flows, ok := j.timed(f)
	if !ok {
		return j.check()
	}
	for _, r := range routes {
		s, known := j.schedule(r)
		for _, one := range flows {
			waits := time.Duration(0)
			for attempt := int64(1); attempt < one.MaxAttempts; attempt++ {
				waits += f.Deployed.Value.Policy.Backoff(attempt)
			}
			if known && waits > s.span {
				j.fail(messages.T("flow %s waits %s between its %d attempts, and rule %s delivers for %s", one.Name, span(waits), one.MaxAttempts, r.rule, span(s.span)),
					messages.T("set PushRetryStrategy to EXPONENTIAL_DECAY_RETRY, or lower max_attempts: deliveries end before the attempts do"))
			}
		}
		j.note(messages.T("rule %s delivers for %s", r.rule, span(s.span)))
	}
	return j.check()
}

func judgeLease(f Facts) Check {
	j := about("lease", messages.T("a crashed run's lease ends while the platform still delivers; an invocation ends within %s", span(maxInvocation)))
	routes, _, ok := j.timed(f)
	if !ok {
		return j.check()
	}
	d := f.Deployed.Value
	lease := d.Timeout + d.Policy.Margin
	if d.Timeout > maxInvocation {
		j.fail(messages.T("the function's time-out is %s: EventBridge ends an invocation after %s", span(d.Timeout), span(maxInvocation)),
			messages.T("lower the function's time-out to %d s at most", int(maxInvocation.Seconds())))
	}
	if d.work() <= 0 {
		j.fail(messages.T("the function's time-out is %s, and recording a failure takes all of it", span(d.Timeout)), messages.T("raise the function's time-out"))
	}
	for _, r := range routes {
		if s, known := j.schedule(r); known && lease >= s.span {
			j.fail(messages.T("a crashed run holds its business for %s, and rule %s delivers for %s: the event is then in the dead-letter queue, not lost", span(lease), r.rule, span(s.span)),
				messages.T("set PushRetryStrategy to EXPONENTIAL_DECAY_RETRY, else replay such events: the intake makes them candidates (TIMEOUT)"))
		}
	}
	j.note(messages.T("a lease lasts %s at most", span(lease)))
	return j.check()
}

func judgeAttempts(f Facts) Check {
	j := about("attempts", messages.T("the platform delivers at least as often as a flow has attempts"))
	routes, flows, ok := j.timed(f)
	if !ok {
		return j.check()
	}
	for _, r := range routes {
		s, known := j.schedule(r)
		for _, one := range flows {
			if known && int64(s.deliveries) < one.MaxAttempts {
				j.fail(messages.T("flow %s has %d attempts, and rule %s delivers %d times", one.Name, one.MaxAttempts, r.rule, s.deliveries),
					messages.T("set PushRetryStrategy to EXPONENTIAL_DECAY_RETRY, or lower max_attempts: deliveries end before the attempts do"))
			}
		}
		j.note(messages.T("rule %s delivers %d times", r.rule, s.deliveries))
	}
	return j.check()
}
