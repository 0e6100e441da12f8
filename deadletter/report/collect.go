package report

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
)

var (
	decisions = []deadletter.Decision{deadletter.ReplayCandidate, deadletter.RepairRequired, deadletter.ManualReview, deadletter.SkipCompleted}
	ends      = []letter.FinalStatus{letter.FinalSucceeded, letter.FinalMigrated, letter.FinalSkippedCompleted, letter.FinalDiscarded, letter.FinalExpired}
)

// Bounds of what is kept.
const (
	maxSample    = 20    // letters of a group
	minSample    = 3     // where there are very many groups
	sampleBudget = 50000 // letters of all groups
	maxExpiring  = 10
	maxRules     = 20
)

// storedRule begins the rule of a decision that was not made anew; a time follows.
const storedRule = "as decided at "

// collector sees each letter once.
type collector struct {
	now      time.Time
	letters  Letters
	groups   map[string]*group
	timeline timeline
	expiring bottom
	perGroup int
}

// group is what is kept of a fingerprint while letters stream.
type group struct {
	fingerprint, code, target string
	class                     letter.Class
	letters, unexplained      int64
	open                      [4]int64
	ended                     [5]int64
	rules, records            map[string]int64
	maxGen                    int64
	first, last, soonest      time.Time
	timeline                  timeline
	sample                    bottom
	evidence                  int
	verified                  bool // the latest evidence went well
}

func newCollector(now time.Time) *collector {
	return &collector{
		now: now, groups: map[string]*group{}, perGroup: maxSample, expiring: bottom{limit: maxExpiring},
		letters: Letters{Open: map[deadletter.Decision]int64{}, Ended: map[letter.FinalStatus]int64{}},
	}
}

func (c *collector) add(j deadletter.Judgement) {
	l := j.Letter
	g := c.groups[j.Fingerprint]
	if g == nil {
		g = &group{
			fingerprint: visible(j.Fingerprint, cutName), code: visible(string(j.Code), cutName), class: j.Code.Class(), target: visible(j.Target, cutName),
			rules: map[string]int64{}, records: map[string]int64{}, first: l.FirstFailedAt, last: l.LastFailedAt,
			sample: bottom{limit: c.perGroup},
		}
		c.groups[strings.Clone(j.Fingerprint)] = g
		c.shrink()
	}
	c.letters.Total++
	g.letters++
	if l.ID == letter.RawID(l.RawSHA256) {
		c.letters.Unreadable++
	}
	decided, ended := slices.Index(decisions, j.Decision), slices.Index(ends, l.FinalStatus)
	switch {
	case ended >= 0:
		g.ended[ended]++
	case l.Open() && decided >= 0 && !j.Rule.IsZero():
		g.open[decided]++
		rule := j.Rule.String()
		if strings.HasPrefix(rule, storedRule) {
			c.letters.Stored++
			rule = "as decided earlier"
		} else if _, known := g.rules[rule]; !known && len(g.rules) >= maxRules {
			rule = "other rules"
		}
		g.rules[rule]++
	default:
		g.unexplained++
	}
	record := "none"
	if j.Rule.IsZero() || strings.HasPrefix(j.Rule.String(), storedRule) {
		record = "not read"
	}
	if j.Record != nil {
		record = visible(string(j.Record.Status), cutName)
	}
	g.records[record]++
	g.maxGen = max(g.maxGen, l.Generation)
	if l.FirstFailedAt.Before(g.first) {
		g.first = l.FirstFailedAt
	}
	if l.LastFailedAt.After(g.last) {
		g.last = l.LastFailedAt
	}
	g.timeline.add(l.FirstFailedAt, l.Open())
	c.timeline.add(l.FirstFailedAt, l.Open())
	rank := rank{late: !l.Open(), id: l.ID}
	g.sample.offer(rank, j)
	if l.Open() {
		c.expires(g, j)
	}
}

func (c *collector) expires(g *group, j deadletter.Judgement) {
	at := j.Letter.ExpiresAt
	if at.IsZero() {
		return
	}
	if g.soonest.IsZero() || at.Before(g.soonest) {
		g.soonest = at
	}
	switch {
	case !at.After(c.now):
		c.letters.Overdue++
	case !at.After(c.now.Add(24 * time.Hour)):
		c.letters.ExpiringDay++
	}
	c.expiring.offer(rank{at: at.UnixMilli(), id: j.Letter.ID}, j)
}

// shrink keeps the samples of all groups within the budget. The smallest ids of
// a set are among the smallest of a larger one, so the order of letters does not matter.
func (c *collector) shrink() {
	n := max(minSample, min(maxSample, sampleBudget/len(c.groups)))
	if n == c.perGroup {
		return
	}
	c.perGroup = n
	for _, g := range c.groups {
		g.sample.cut(n)
	}
}

// report sums the groups up. The total was counted apart: that is the check.
func (c *collector) report() *Report {
	r := &Report{Letters: c.letters, GroupCount: len(c.groups), Timeline: c.timeline.view(), Expiring: c.expiring.events}
	s := &r.Letters
	for _, d := range decisions {
		s.Open[d] = 0
	}
	for _, e := range ends {
		s.Ended[e] = 0
	}
	for _, g := range c.groups {
		s.Unexplained += g.unexplained
		for i, d := range decisions {
			s.Open[d] += g.open[i]
			s.OpenSum += g.open[i]
		}
		for i, e := range ends {
			s.Ended[e] += g.ended[i]
			s.EndedSum += g.ended[i]
		}
	}
	s.Balanced = s.Total == s.OpenSum+s.EndedSum
	return r
}

// sorted is all groups, those that expire soonest first.
func (c *collector) sorted() []*group {
	all := make([]*group, 0, len(c.groups))
	for _, g := range c.groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(x, y *group) int {
		if x.soonest.IsZero() != y.soonest.IsZero() {
			if x.soonest.IsZero() {
				return 1
			}
			return -1
		}
		return cmp.Or(x.soonest.Compare(y.soonest), cmp.Compare(y.letters, x.letters), cmp.Compare(x.fingerprint, y.fingerprint))
	})
	return all
}

func (g *group) view() *Group {
	v := &Group{
		Fingerprint: g.fingerprint, Code: g.code, Class: g.class, Target: g.target, Letters: g.letters, Unexplained: g.unexplained,
		Open: map[deadletter.Decision]int64{}, Ended: map[letter.FinalStatus]int64{}, Rules: g.rules, Records: g.records, MaxGen: g.maxGen,
		FirstFailed: g.first.UTC(), LastFailed: g.last.UTC(), Soonest: g.soonest.UTC(), Timeline: g.timeline.view(),
		Evidence: []Evidence{}, Batches: []string{}, Sample: g.sample.events, Page: "groups/" + fileName(g.fingerprint) + ".html",
	}
	for i, d := range decisions {
		v.Open[d] = g.open[i]
		v.OpenSum += g.open[i]
	}
	for i, e := range ends {
		v.Ended[e] = g.ended[i]
		v.EndedSum += g.ended[i]
	}
	return v
}

// drop lets go of what only the group's own page needs.
func (g *group) drop() { g.sample, g.rules, g.records = bottom{}, nil, nil }

// rank orders letters: a fixed choice, whatever order they come in.
type rank struct {
	late bool
	at   int64 // milliseconds since 1970
	id   string
}

func (r rank) compare(o rank) int {
	if r.late != o.late {
		if r.late {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(r.at, o.at), cmp.Compare(r.id, o.id))
}

// bottom keeps the first letters by rank.
type bottom struct {
	limit  int
	ranks  []rank
	events []Event
}

func (b *bottom) offer(r rank, j deadletter.Judgement) {
	if len(b.ranks) == b.limit && r.compare(b.ranks[b.limit-1]) >= 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(b.ranks, r, rank.compare)
	if len(b.ranks) == b.limit {
		b.cut(b.limit - 1)
		b.limit++
	}
	e := eventOf(j)
	r.id = strings.Clone(r.id)
	b.ranks = slices.Insert(b.ranks, i, r)
	b.events = slices.Insert(b.events, i, e)
}

func (b *bottom) cut(limit int) {
	b.limit = limit
	if len(b.ranks) > limit {
		clear(b.events[limit:])
		clear(b.ranks[limit:])
		b.ranks, b.events = b.ranks[:limit], b.events[:limit]
	}
}

func eventOf(j deadletter.Judgement) Event {
	l := j.Letter
	e := Event{
		LetterID: visible(l.ID, cutName), EventID: visible(l.EventID, cutName), Source: visible(l.EventSource, cutName), Flow: visible(l.Flow, cutName),
		Fingerprint: visible(j.Fingerprint, cutName), Code: visible(string(j.Code), cutName), Target: visible(j.Target, cutName),
		Decision: j.Decision, Rule: j.Rule.String(), Final: l.FinalStatus,
		ClosedBy: visible(l.ClosedBy, cutName), CloseReason: visible(l.CloseReason, cutText), Reason: visible(l.Reason, cutText),
		ConsumerVersion: visible(l.ConsumerVersion, cutName), OriginalEventID: visible(l.OriginalEventID, cutName),
		Migration: visible(l.Migration, cutName), Batch: visible(l.ReplayBatchID, cutName),
		Sightings: l.DeliveryAttempts, Generation: l.Generation, EventTime: l.EventTime,
		FirstFailed: l.FirstFailedAt, LastFailed: l.LastFailedAt, ClosedAt: l.ClosedAt, ExpiresAt: l.ExpiresAt,
	}
	if l.EventTime.Year() < 0 || l.EventTime.Year() > 9999 {
		e.EventTime = time.Time{}
	}
	if j.Record != nil {
		e.Record = visible(string(j.Record.Status), cutName)
	}
	for _, h := range l.History {
		e.Lives = append(e.Lives, Life{
			At: time.UnixMilli(h.ClosedAt).UTC(), Final: visible(string(h.FinalStatus), cutName), Code: visible(string(h.Code), cutName),
			Generation: h.Generation, Batch: visible(h.Batch, cutName),
		})
	}
	return e
}
