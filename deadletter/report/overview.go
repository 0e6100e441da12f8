package report

import (
	"fmt"
	"strings"
	"time"
)

// shownGroups is how many groups the overview shows.
const shownGroups = 20

type overviewPage struct {
	*Report
	First []*Group
	Index []link
}

// overview writes the pages that need all others: the groups' index, repairs, the
// overview and the summary.
func (w *writer) overview(r *Report, groups []*group) error {
	index := &pager[*Group]{name: "groups", known: true, total: int64(len(groups)), put: func(name string, l listPage[*Group]) error {
		l.About = r
		return w.render(name, "groups", w.words.say("Groups"), "groups", l)
	}}
	var first []*Group
	for _, g := range groups {
		v := g.view()
		if len(first) < shownGroups {
			first = append(first, v)
		}
		if err := index.add(v); err != nil {
			return err
		}
	}
	if err := index.end(); err != nil {
		return err
	}
	if err := w.repairs.end(); err != nil {
		return err
	}
	batches := &pager[*Batch]{name: "batches", known: true, total: int64(len(r.BatchList)), put: func(name string, l listPage[*Batch]) error {
		l.About = r
		return w.render(name, "batches", w.words.say("Batches"), "batches", l)
	}}
	for _, b := range r.BatchList {
		if err := batches.add(b); err != nil {
			return err
		}
	}
	if err := batches.end(); err != nil {
		return err
	}
	if err := w.file("summary.md", []byte(w.summary(r, first))); err != nil {
		return err
	}
	return w.render("index.html", "overview", w.words.say("Overview"), "overview", overviewPage{r, first, index.index()})
}

// summary is text for a chat or a ticket: numbers, codes and targets, and no event.
func (w *writer) summary(r *Report, first []*Group) string {
	t := w.words.say
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# %s: %s", t("Dead letters"), code(r.Environment))
	line("")
	line("%s %s · %s: %s", t("as of"), r.GeneratedAt.Format(time.RFC3339), t("complete"), t(map[bool]string{true: "yes", false: "no"}[r.Complete]))
	line("")
	verdict := t("every letter is explained, and all sums balance")
	if !r.OK {
		verdict = t("NOT in order: letters are unexplained or sums do not balance")
	}
	line("**%s %d — %s**", t("Unexplained"), r.Letters.Unexplained, verdict)
	line("")
	line("- %s: %d = %d %s + %d %s", t("Letters"), r.Letters.Total, r.Letters.OpenSum, t("open"), r.Letters.EndedSum, t("ended"))
	for _, d := range decisions {
		line("  - %s: %d", code(string(d)), r.Letters.Open[d])
	}
	for _, e := range ends {
		line("  - %s: %d", code(string(e)), r.Letters.Ended[e])
	}
	line("- %s: %d · %s: %d · %s: %d", t("unreadable"), r.Letters.Unreadable, t("expire within 24 h"), r.Letters.ExpiringDay, t("open past their time"), r.Letters.Overdue)
	c := r.Batches.Counts
	line("- %s: %d; %s %d = %d %s + %d %s + %d %s + %d %s + %d %s", t("Batches"), r.Batches.Plans, t("selected"), c.Selected,
		c.Succeeded, t("succeeded"), c.Skipped, t("skipped"), c.Refused, t("refused"), c.Failed, t("failed"), c.Unresolved, t("unresolved"))
	line("- %s: %d %s, %d %s, %d %s, %d %s", t("Approvals"), r.Approvals.Waiting, t("waiting"), r.Approvals.Granted, t("granted"), r.Approvals.Rejected, t("rejected"), r.Approvals.Stale, t("stale"))
	line("")
	line("## %s (%d / %d)", t("Groups, those that expire soonest first"), min(len(first), summaryGroups), r.GroupCount)
	line("")
	for _, g := range first[:min(len(first), summaryGroups)] {
		line("- %s %s → %s: %d %s, %d %s; %s %s", code(g.Fingerprint), code(g.Code), code(g.Target), g.OpenSum, t("open"), g.EndedSum, t("ended"), t("expires"), day(g.Soonest))
	}
	return b.String()
}

const summaryGroups = 10

func day(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}
