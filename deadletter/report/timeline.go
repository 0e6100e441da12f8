package report

import "time"

// buckets is how many a timeline has at most.
const buckets = 48

// widths of a bucket in seconds; each divides the next, so that buckets can be merged.
var widths = []int64{60, 300, 900, 3600, 6 * 3600, 86400, 7 * 86400, 28 * 86400, 364 * 86400, 10 * 364 * 86400, 100 * 364 * 86400, 1000 * 364 * 86400}

// timeline counts in buckets that widen as far as the times lie apart. Whatever
// order the times come in, the result is the same.
type timeline struct {
	width  int8
	used   bool
	lo, hi int64 // occupied buckets, in widths since 1970
	open   [buckets]int32
	ended  [buckets]int32
}

func (t *timeline) add(at time.Time, open bool) {
	if at.Year() < 1 || at.Year() > 9999 {
		at = time.Unix(0, 0)
	}
	i := floorDiv(at.Unix(), widths[t.width])
	if !t.used {
		t.used, t.lo, t.hi = true, i, i
	}
	for max(t.hi, i)-min(t.lo, i) >= buckets && int(t.width) < len(widths)-1 {
		t.widen()
		i = floorDiv(at.Unix(), widths[t.width])
	}
	if i < t.lo {
		t.shift(t.lo - i)
	}
	t.lo, t.hi = min(t.lo, i), max(t.hi, i)
	if open {
		t.open[i-t.lo]++
	} else {
		t.ended[i-t.lo]++
	}
}

func (t *timeline) widen() {
	factor := widths[t.width+1] / widths[t.width]
	t.width++
	open, ended := t.open, t.ended
	lo := floorDiv(t.lo, factor)
	t.open, t.ended = [buckets]int32{}, [buckets]int32{}
	for n := range t.hi - t.lo + 1 {
		to := floorDiv(t.lo+n, factor) - lo
		t.open[to] += open[n]
		t.ended[to] += ended[n]
	}
	t.lo, t.hi = lo, floorDiv(t.hi, factor)
}

func (t *timeline) shift(by int64) {
	n := t.hi - t.lo + 1
	copy(t.open[by:], t.open[:n])
	copy(t.ended[by:], t.ended[:n])
	clear(t.open[:min(by, n+by)])
	clear(t.ended[:min(by, n+by)])
}

func (t *timeline) view() Timeline {
	v := Timeline{Seconds: widths[t.width], Open: []int64{}, Ended: []int64{}}
	if !t.used {
		return v
	}
	v.From = time.Unix(t.lo*widths[t.width], 0).UTC()
	for n := range t.hi - t.lo + 1 {
		v.Open = append(v.Open, int64(t.open[n]))
		v.Ended = append(v.Ended, int64(t.ended[n]))
	}
	return v
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
