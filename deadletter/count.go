package deadletter

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
)

// Counts are exact: they come from the letters, each time. There is no counter
// that could drift from them.
type Counts struct {
	At     time.Time
	Took   time.Duration
	Basis  Basis
	Open   map[Decision]int
	Closed map[letter.FinalStatus]int
	// Classes and Flows are of the open ones.
	Classes map[letter.Class]int
	Flows   map[string]int

	OldestOpen   time.Time // first failure of the oldest open letter
	ExpiringSoon int       // open ones that expire within 24 hours, or should have expired
	New          int       // open or not: first failed within 24 hours
	Groups       []Group   // by falling number of open letters, then by fingerprint
}

// Group is the letters of one fingerprint.
type Group struct {
	Fingerprint  string
	Code         letter.Code
	Target       string
	Open, Closed int
	New          int              // first failed within 24 hours
	Decisions    map[Decision]int // of the open ones
	FirstFailed  time.Time
	LastFailed   time.Time
}

// soon is how near an expiry is worth a warning, and how long a letter is new.
const soon = 24 * time.Hour

// Count counts letters by parallel range scans of the columns that it goes by.
// Memory grows with the number of groups alone.
func (d *Desk) Count(ctx context.Context, o EachOptions) (Counts, error) {
	o.brief = true
	c := Counts{
		At: d.Now(), Open: map[Decision]int{}, Closed: map[letter.FinalStatus]int{}, Classes: map[letter.Class]int{}, Flows: map[string]int{},
	}
	groups := map[string]*Group{}
	var err error
	c.Basis, err = d.Each(ctx, o, func(j Judgement) error {
		g := groups[j.Fingerprint]
		if g == nil {
			g = &Group{Fingerprint: j.Fingerprint, Code: j.Code, Target: j.Target, Decisions: map[Decision]int{}, FirstFailed: j.Letter.FirstFailedAt}
			groups[j.Fingerprint] = g
		}
		c.add(g, j)
		return nil
	})
	if err != nil {
		return Counts{}, err
	}
	c.Groups = make([]Group, 0, len(groups))
	for g := range maps.Values(groups) {
		c.Groups = append(c.Groups, *g)
	}
	slices.SortFunc(c.Groups, func(x, y Group) int {
		return cmp.Or(cmp.Compare(y.Open, x.Open), cmp.Compare(x.Fingerprint, y.Fingerprint))
	})
	c.Took = d.Now().Sub(c.At)
	return c, nil
}

func (c *Counts) add(g *Group, j Judgement) {
	l := j.Letter
	if l.FirstFailedAt.Before(g.FirstFailed) {
		g.FirstFailed = l.FirstFailedAt
	}
	if l.LastFailedAt.After(g.LastFailed) {
		g.LastFailed = l.LastFailedAt
	}
	if l.FirstFailedAt.After(c.At.Add(-soon)) {
		c.New++
		g.New++
	}
	if !l.Open() {
		g.Closed++
		c.Closed[l.FinalStatus]++
		return
	}
	g.Open++
	g.Decisions[j.Decision]++
	c.Open[j.Decision]++
	c.Classes[j.Code.Class()]++
	c.Flows[l.Flow]++
	if c.OldestOpen.IsZero() || l.FirstFailedAt.Before(c.OldestOpen) {
		c.OldestOpen = l.FirstFailedAt
	}
	if l.ExpiresAt.Before(c.At.Add(soon)) {
		c.ExpiringSoon++
	}
}
