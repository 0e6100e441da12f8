package deadletter

import (
	"slices"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
)

// EvidenceFor returns the evidence that a letter of a group may go by, nil with a
// reason where there is none. all is the group's, oldest first; lastAttempt is when
// the letter's task was tried last, if it failed then.
func EvidenceFor(code letter.Code, all []Evidence, l letter.Letter, lastAttempt time.Time) (e *Evidence, why string) {
	if len(all) == 0 {
		return nil, "no probe has shown that the cause is repaired"
	}
	newest := all[len(all)-1]
	switch {
	case !newest.OK:
		return nil, "the newest probe or attempt says that the cause is not repaired"
	case lastAttempt.After(newest.At):
		return nil, "an attempt that began after the evidence has failed"
	case code == letter.CodeInvalidSchema && !slices.Contains(newest.LetterIDs, l.ID):
		return nil, "the evidence is not about this letter"
	}
	return &newest, ""
}
