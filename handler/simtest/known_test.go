package simtest

// What the schedules leave out because the product does not hold it yet. Each is
// to become true with its repair, and false shows nothing.
const (
	// skewTolerant: the windows of look-ups and keys are judged by the clock of
	// whoever comes next. Two clocks that are each within the tolerated skew let a
	// readable target be looked up before it shows the first write, and one that
	// takes a number twice meanwhile gets it twice.
	skewTolerant = true
	// answersLast: a person may answer a question between its review and the
	// record that waits for it. The answer is then carried out without the record,
	// which waits for ever unless somebody gives the same answer again.
	answersLast = true
	// finalIsSure: the last attempt of a budget ends as FAILED_FINAL where it cannot
	// read its effects' rows, and where a former run has left one UNKNOWN.
	finalIsSure = true
	// useNewFences: an effect's row that a dead run has on its way may arrive after
	// another input was let hold, and the next run then goes on with the output of
	// the old one.
	useNewFences = true
)
