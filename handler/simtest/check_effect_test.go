package simtest

import (
	"encoding/json"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

func (k *checker) effectRow(key string, beforeRow, row aliyun.Row) {
	e, err := idempotency.ParseEffect(key, row)
	if err != nil {
		k.broken("I5", "effect %s cannot be read: %v", key, err)
		return
	}
	k.world.note("    effect %s %.8s is %s, attempt %d, revision %d", e.Name, key, e.State, e.Attempt, e.Revision)
	k.history(idempotency.TaskTable.Name+"/"+key, e.History, e.Revision, idempotency.Status(e.State))
	var before idempotency.Effect
	if beforeRow != nil {
		if before, err = idempotency.ParseEffect(key, beforeRow); err != nil {
			return
		}
	}
	ok := false
	switch before.State + ">" + e.State {
	case ">SENT", "REFUSED>SENT", "SENT>SETTLED", "SENT>REFUSED", "SENT>UNKNOWN":
		ok = true
	case "SENT>SENT":
		ok = e.Kind != idempotency.TargetOpaque && e.Attempt > before.Attempt
	case "UNKNOWN>SETTLED", "UNKNOWN>REFUSED", ">REFUSED", "REFUSED>REFUSED":
		// The last two are fences: another input is to hold.
		ok = k.reviews()[e.Owner] != nil || (e.State == idempotency.EffectRefused && before.State != idempotency.EffectUnknown && k.migrates(e.TaskKey))
	}
	if !ok {
		k.broken("I2", "effect %s of %.8s went from %s to %s by %s", e.Name, e.TaskKey, before.State, e.State, e.Owner)
	}
	if e.State == idempotency.EffectSent {
		k.sending(e)
	}
}

// migrates reports whether a plan lets another input of a task hold.
func (k *checker) migrates(key string) bool {
	for _, g := range k.world.granted {
		if g.key == key && g.revision > 0 && g.record != g.input {
			return true
		}
	}
	return false
}

// sending: I2, a request ends before its lease does, and is made from an output
// of the input that holds (I6).
func (k *checker) sending(e idempotency.Effect) {
	task, ok := k.record(e.TaskKey)
	if !ok {
		k.broken("I2", "effect %s is sent without a task", e.Name)
		return
	}
	if !k.holds(e.OutputRef) {
		k.broken("I2", "effect %s of %.8s is sent, its output %s is not there", e.Name, e.TaskKey, e.OutputRef.Object)
	}
	if task.Owner != e.Owner || task.Status != idempotency.StatusRunning {
		return // the write was late: its caller sends nothing, or has a lease that is over
	}
	if left := task.LeaseUntil.Add(-policy.Margin).Sub(e.SentAt); left < e.Timeout {
		k.broken("I2", "effect %s of %.8s is sent with %s left and may take %s", e.Name, e.TaskKey, left, e.Timeout)
	}
	k.ofInput("effect "+e.Name, e.OutputRef, task)
}

// ofInput: I6, what a task does and ends with is made from the input that it holds.
func (k *checker) ofInput(what string, ref idempotency.Ref, task idempotency.Record) {
	made := k.objects[ref.Object]
	if len(made) == 0 || made[0].Metadata["oncegate-input-digest"] == task.InputDigest {
		return
	}
	if len(task.SupersededDigests) > 0 && !useNewFences {
		k.world.faults["worked on with a superseded input's output"]++
		return
	}
	k.broken("I6", "%s of %.8s is made from the output of another input", what, task.Key)
}

// leaves: a request that reaches a target has its row before.
func (k *checker) leaves(c *call) {
	if c.service != target || !c.write() {
		return
	}
	if key := k.effectKey(c); k.now(idempotency.TaskTable, key) == nil {
		k.broken("I2", "%s is sent without a row", c)
	}
}

// effectKey is the effect that a request to a target is about. A robot takes no
// key, so its message says which task and effect it is of.
func (k *checker) effectKey(c *call) string {
	if key := c.req.Header.Get("Idempotency-Key"); key != "" {
		return key
	}
	var body struct{ Task, Effect string }
	_ = json.Unmarshal(c.body, &body)
	return k.effectOf[body.Task+"/"+body.Effect]
}

// outside: I2, what really happened at the targets.
func (k *checker) outside(c *call) {
	t := k.world.targets
	notifications, records, messages := len(t.Notifications()), len(t.Records()), len(t.RobotMessages())
	if notifications == k.notifications && records == k.records && messages == k.messages {
		return
	}
	k.notifications, k.records, k.messages = notifications, records, messages
	key := k.effectKey(c)
	k.effects[key]++
	e, _ := k.effect(key)
	k.world.note("    %s has happened at its target, %d times", e.Name, k.effects[key])
	if allowed := 1 + k.denied[key]; k.effects[key] > allowed {
		k.broken("I2", "effect %s (%s) of %.8s has happened %d times", e.Name, e.Kind, e.TaskKey, k.effects[key])
	}
}

// reviewed notes what people answer.
func (k *checker) reviewed(before, row aliyun.Row) {
	if before == nil || before["state"] == row["state"] {
		return
	}
	if row["resolution"] == string(idempotency.ResolvedNotDone) {
		key, _ := row["effect_key"].(string)
		k.denied[key]++
	}
}
