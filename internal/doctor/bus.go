package doctor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/messages"
)

// Sizes in bytes: what EventBridge takes, what a queue takes, and from which size
// on the function stores a letter at an event's first failure.
const (
	maxEvent     = 256 << 10
	maxMessage   = 64 << 10
	letterAtOnce = 48 << 10
)

// blind notes that there is no route to judge; ok is false then.
func (j *judgement) blind(f Facts) (routes []route, ok bool) {
	if f.Rules.Missing != nil {
		j.missing(f.Rules.Missing, Fail)
		return nil, false
	}
	if routes = f.routes(); len(routes) == 0 {
		j.missing(&Missing{Reason: DependsOn, What: "rule-form"}, Fail)
		return nil, false
	}
	return routes, true
}

func isNumber(version string) bool {
	_, err := strconv.ParseUint(version, 10, 64)
	return err == nil
}

func judgeVersions(f Facts) Check {
	j := about("versions", messages.T("versions are published, and the alias %s points to one of them by number", f.Alias))
	switch v := f.Versions.Value; {
	case f.Versions.Missing != nil:
		j.missing(f.Versions.Missing, Fail)
	case len(v.Published) == 0:
		j.fail(messages.T("no version of %s is published", f.Function), messages.T("publish one and point the alias %s to it: a replay runs what ran", f.Alias))
	case v.AliasTo == "":
		j.fail(messages.T("there is no alias %s", f.Alias), messages.T("make the alias %s and point it to the newest version", f.Alias))
	case !isNumber(v.AliasTo) || !slices.Contains(v.Published, v.AliasTo):
		j.fail(messages.T("the alias points to %s, which is no published version", v.AliasTo), messages.T("point the alias %s to a published version", f.Alias))
	default:
		j.note(messages.T("%d published, the alias points to %s", len(v.Published), v.AliasTo))
	}
	return j.check()
}

func judgeRuleForm(f Facts) Check {
	j := about("rule-form", messages.T("a rule of bus %s brings whole events (ORIGINAL) to %s at alias %s, retries with EXPONENTIAL_DECAY_RETRY, and goes on after an error (ALL)",
		f.Bus, f.Function, f.Alias))
	if f.Rules.Missing != nil {
		j.missing(f.Rules.Missing, Fail)
		return j.check()
	}
	routes := f.routes()
	if len(routes) == 0 {
		j.fail(messages.T("no enabled rule of the bus delivers to the function"), messages.T("make the rule, or enable it: README, Deploy"))
	}
	for _, r := range routes {
		if r.Form != "ORIGINAL" {
			j.fail(messages.T("rule %s: the function gets the form %s", r.rule, r.Form),
				messages.T("set the target's Body to ORIGINAL: any other form loses id and source, and with them the key"))
		}
		if r.Tolerance != "ALL" {
			j.fail(messages.T("rule %s: errors tolerance is %q", r.rule, r.Tolerance), messages.T("set ErrorsTolerance to ALL: else one event that fails stops all others"))
		}
		if r.Retry != decayRetry {
			j.fail(messages.T("rule %s: retries with %s", r.rule, retryOf(r.Retry)), messages.T("set PushRetryStrategy to EXPONENTIAL_DECAY_RETRY"))
		}
		if r.Async {
			j.fail(messages.T("rule %s: the function is invoked asynchronously", r.rule),
				messages.T("invoke it synchronously: else EventBridge sees success at once and never retries or dead-letters"))
		}
		switch {
		case r.Qualifier == "" || r.Qualifier == "LATEST":
			j.fail(messages.T("rule %s: delivers to LATEST", r.rule), messages.T("deliver to the alias %s: a replay must be able to name what ran", f.Alias))
		case r.Qualifier != f.Alias:
			j.fail(messages.T("rule %s: delivers to %s", r.rule, r.Qualifier), messages.T("deliver to the alias %s: a replay must be able to name what ran", f.Alias))
		}
		j.note(messages.T("rule %s", r.rule))
	}
	return j.check()
}

func judgeDeadLetterQueue(f Facts) Check {
	j := about("dead-letter-queue", messages.T("each rule has a dead-letter queue that exists and keeps a letter for %s", span(queueAge)))
	routes, ok := j.blind(f)
	if !ok {
		return j.check()
	}
	for _, r := range routes {
		name := aliyun.QueueOf(r.DeadLetterQueue)
		q, looked := f.Queues[name]
		switch {
		case r.DeadLetterQueue == "":
			j.fail(messages.T("rule %s has none: an event whose retries are over is gone", r.rule), messages.T("set the target's DeadLetterQueue"))
		case name == "":
			j.fail(messages.T("rule %s: its dead-letter queue is no queue of SMQ (MNS), which the intake reads", r.rule), messages.T("set the target's DeadLetterQueue"))
		case !looked:
			j.missing(&Missing{Reason: NoAnswer, What: "mns", Where: "nobody asked"}, Fail)
		case q.Missing != nil:
			j.missing(q.Missing, Fail)
		case q.Value.Absent:
			j.fail(messages.T("queue %s does not exist", name), messages.T("make the queue %s", name))
		case q.Value.Retention < queueAge:
			j.fail(messages.T("queue %s keeps a letter for %s", name, span(q.Value.Retention)),
				messages.T("set its MessageRetentionPeriod to %d s: letters wait there while the intake does not work", int(queueAge.Seconds())))
		default:
			j.note(messages.T("queue %s", name))
		}
	}
	return j.check()
}

func judgeEventSize(f Facts) Check {
	j := about("event-size", messages.T("whatever may be published may be dead-lettered: %d KB an event", maxEvent>>10))
	routes, ok := j.blind(f)
	if !ok {
		return j.check()
	}
	seen := map[string]bool{}
	for _, r := range routes {
		name := aliyun.QueueOf(r.DeadLetterQueue)
		q, looked := f.Queues[name]
		if name == "" || seen[name] {
			continue
		}
		seen[name] = true
		switch size := q.Value.MaxMessage; {
		case !looked, q.Missing != nil, q.Value.Absent:
			j.missing(&Missing{Reason: DependsOn, What: "dead-letter-queue"}, Fail)
		case size < letterAtOnce:
			j.fail(messages.T("queue %s takes %d KB: letters between that and %d KB are lost", name, size>>10, letterAtOnce>>10),
				messages.T("set its MaximumMessageSize to %d", maxMessage))
		case size < maxEvent:
			j.warn(messages.T("queue %s takes %d KB; a larger event gets its letter from the function, at the first failure that is retried", name, size>>10),
				messages.T("keep events below %d KB, or hand their content over by reference: a larger one that never reaches the function cannot be dead-lettered", size>>10))
		}
	}
	if len(seen) == 0 {
		j.missing(&Missing{Reason: DependsOn, What: "dead-letter-queue"}, Fail)
	}
	j.note(messages.T("every event fits"))
	return j.check()
}

func judgeIntakeStream(f Facts) Check {
	j := about("intake-stream", messages.T("an event stream feeds %s from the dead-letter queue, runs, retries with EXPONENTIAL_DECAY_RETRY, and discards nothing (NONE)", f.Intake))
	routes, ok := j.blind(f)
	if f.Streams.Missing != nil {
		j.missing(f.Streams.Missing, Fail)
	}
	if !ok || f.Streams.Missing != nil {
		return j.check()
	}
	queues := map[string]bool{}
	for _, r := range routes {
		if name := aliyun.QueueOf(r.DeadLetterQueue); name != "" {
			queues[name] = false
		}
	}
	for _, s := range f.Streams.Value {
		if _, ours := queues[s.Queue]; !ours || s.Function != f.Intake {
			continue
		}
		queues[s.Queue] = true
		if !strings.EqualFold(s.Status, "RUNNING") {
			j.fail(messages.T("stream %s is %s", s.Name, s.Status), messages.T("start the stream: letters end in the queue after %s", span(queueAge)))
		}
		if s.Tolerance != "NONE" {
			j.fail(messages.T("stream %s: errors tolerance is %q", s.Name, s.Tolerance), messages.T("set ErrorsTolerance of the stream to NONE: else it throws letters away"))
		}
		if s.Retry != decayRetry {
			j.fail(messages.T("stream %s: retries with %s", s.Name, retryOf(s.Retry)), messages.T("set PushRetryStrategy to EXPONENTIAL_DECAY_RETRY"))
		}
		j.note(messages.T("stream %s", s.Name))
	}
	if len(queues) == 0 {
		j.missing(&Missing{Reason: DependsOn, What: "dead-letter-queue"}, Fail)
	}
	for name, fed := range queues {
		if !fed {
			j.fail(messages.T("nothing takes the letters of queue %s in", name), messages.T("make the stream from the queue to %s: README, Deploy", f.Intake))
		}
	}
	return j.check()
}
