package doctor

import "github.com/oncegate/oncegate/internal/messages"

// Seen is a fact: its value, or why nobody knows it.
type Seen[T any] struct {
	Value   T
	Missing *Missing // nil where Value holds
}

// See is a fact that was learnt.
func See[T any](v T) Seen[T] { return Seen[T]{Value: v} }

// Unseen is a fact that could not be learnt.
func Unseen[T any](m Missing) Seen[T] { return Seen[T]{Missing: &m} }

// Reason is why a fact is missing.
type Reason string

// The reasons.
const (
	Unset       Reason = "unset"       // What is the variable that says where to look
	Denied      Reason = "denied"      // What is the RAM action, Where the resource
	Refused     Reason = "refused"     // What is the service that does not accept the credentials
	Absent      Reason = "absent"      // What is what must be there first; `oncegate setup` makes it
	NoAnswer    Reason = "no_answer"   // What is the service, Where its error without any payload
	Unreadable  Reason = "unreadable"  // What is not understood, Where says why
	DependsOn   Reason = "depends_on"  // What is the check that must pass first
	Undeployed  Reason = "undeployed"  // What is the function, Where its alias
	OtherRunner Reason = "other_flows" // the function has a flows file of its own, which nobody has given
)

// Missing says why a fact could not be learnt.
type Missing struct {
	Reason Reason
	What   string
	Where  string
}

func (m *Missing) found() messages.Text {
	switch m.Reason {
	case Unset:
		return messages.T("nobody could look: %s is not set", m.What)
	case Denied:
		return messages.T("nobody could look: missing right %s on %s", m.What, m.Where)
	case Refused:
		return messages.T("nobody could look: %s does not accept the credentials", m.What)
	case Absent:
		return messages.T("nobody could look: there is no %s", m.What)
	case Unreadable:
		return messages.T("nobody could look: %s is not understood (%s)", m.What, m.Where)
	case DependsOn:
		return messages.T("nobody could look: it needs what the check %s did not find", m.What)
	case Undeployed:
		return messages.T("nobody could look: there is no function %s at alias %s", m.What, m.Where)
	case OtherRunner:
		return messages.T("nobody could look: the function has a flows file of its own (ONCEGATE_FLOWS_FILE)")
	}
	return messages.T("nobody could look: %s did not answer (%s)", m.What, m.Where)
}

// Do is what to do about it.
func (m *Missing) Do() messages.Text {
	switch m.Reason {
	case Unset:
		return messages.T("set %s and run this again", m.What)
	case Denied:
		return messages.T("allow %s on %s: the role deployer of scripts/ram has it", m.What, m.Where)
	case Refused:
		return messages.T("look at key, secret, token and this machine's clock")
	case Absent:
		return messages.T("run `oncegate setup`, which makes it")
	case Unreadable:
		return messages.T("look at it yourself: %s", m.What)
	case DependsOn:
		return messages.T("put %s right first", m.What)
	case Undeployed:
		return messages.T("deploy %s, publish a version and point the alias %s to it", m.What, m.Where)
	case OtherRunner:
		return messages.T("give the same file with --flows")
	}
	return messages.T("see that %s can be reached from here, and run this again", m.What)
}
