package deadletter

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/internal/messages"
)

// MaxFresh is how many open letters are judged anew each time they are listed or
// counted. Above that the decision that was stored last is used, and shown as
// such with its age: a million records are not read for one count.
const MaxFresh = 2000

// How letters are judged: so many at a time, by so many readers.
const (
	judgeBatch   = 256
	judgeReaders = 16
)

// EachOptions narrow a walk over letters.
type EachOptions struct {
	Open        bool   // open letters only
	Closed      bool   // ended letters only
	Fingerprint string // of this group
	EventID     string // of this event
	Prefix      string // digits that the letter's id begins with
	// Fresh reads the record of every letter, ended ones included, however many
	// there are.
	Fresh bool
	// Anew reads the record of every letter that the rest lets through, for those who
	// act on what they see.
	Anew     bool
	Progress func(letters int) // after each batch; may be nil

	brief bool // the columns alone that counts go by
}

// Basis says what the decisions of a walk rest on.
type Basis struct {
	Letters int       // that were walked
	Read    int       // judged by their records as they stand now
	Stored  int       // open ones whose stored decision was used
	Oldest  time.Time // when the oldest of those was made; zero where there is none
}

// Each calls fn with letters by rising id, from its own goroutine, in bounded
// memory. An ended letter comes with what was decided last. An open one is judged
// anew where its table has at most MaxFresh of them, where no decision is stored,
// or where o is Fresh; else it comes with its stored decision and without a record.
//
// A group is found by the letters' records while they are read, and by the stored
// fingerprint beyond MaxFresh; `sweep` brings that up to date.
func (d *Desk) Each(ctx context.Context, o EachOptions, fn func(Judgement) error) (Basis, error) {
	w := walk{desk: d, o: o, fn: fn, fresh: o.Fresh || o.Anew}
	r := letter.Range{Open: o.Open, Closed: o.Closed, EventID: o.EventID, Prefix: o.Prefix}
	if !o.Fresh && (!o.Anew || o.Fingerprint != "") {
		few, err := d.few(ctx, r)
		if err != nil {
			return Basis{}, err
		}
		if w.few = few; !few {
			r.Fingerprint = o.Fingerprint
		}
	}
	scan := d.Letters.Each
	if o.brief {
		scan = d.Letters.EachTally
	}
	err := scan(ctx, r, func(l letter.Letter) error {
		w.batch = append(w.batch, l)
		if len(w.batch) < judgeBatch {
			return nil
		}
		return w.flush(ctx)
	})
	if err == nil {
		err = w.flush(ctx)
	}
	return w.basis, err
}

var errMany = errors.New("many")

// few reports whether a range has at most MaxFresh open letters.
func (d *Desk) few(ctx context.Context, r letter.Range) (bool, error) {
	if r.Closed {
		return true, nil
	}
	r.Open = true
	n := 0
	err := d.Letters.EachTally(ctx, r, func(letter.Letter) error {
		if n++; n > MaxFresh {
			return errMany
		}
		return nil
	})
	if errors.Is(err, errMany) {
		return false, nil
	}
	return err == nil, err
}

type walk struct {
	desk       *Desk
	o          EachOptions
	fn         func(Judgement) error
	fresh, few bool
	batch      []letter.Letter
	judged     []Judgement // of the batch
	gone       []bool      // letters of the batch that are not there any more
	basis      Basis
}

func (w *walk) reads(l *letter.Letter) bool {
	return w.fresh || (l.Open() && (w.few || l.Decision == ""))
}

// flush judges a batch and hands it on. Its room is used again and again, and no
// reader is started where nothing is to be read: a count comes by a million times.
func (w *walk) flush(ctx context.Context) error {
	w.judged = slices.Grow(w.judged[:0], len(w.batch))[:len(w.batch)]
	w.gone = slices.Grow(w.gone[:0], len(w.batch))[:len(w.batch)]
	clear(w.gone)
	judged, gone := w.judged, w.gone
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(judgeReaders)
	for i := range w.batch {
		if !w.reads(&w.batch[i]) {
			judged[i] = Stored(w.batch[i])
			continue
		}
		l := w.batch[i]
		group.Go(func() (err error) {
			if w.o.brief {
				var ok bool
				if l, ok, err = w.desk.Letters.Get(inner, l.ID); err != nil {
					return err
				}
				if gone[i] = !ok; !ok {
					return nil
				}
			}
			judged[i], err = w.desk.Judge(inner, l)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i := range judged {
		j := &judged[i]
		if gone[i] || (w.o.Fingerprint != "" && j.Fingerprint != w.o.Fingerprint && j.Letter.Fingerprint != w.o.Fingerprint) {
			continue
		}
		w.basis.Letters++
		switch l := &w.batch[i]; {
		case w.reads(l):
			w.basis.Read++
		case l.Open():
			w.basis.Stored++
			if w.basis.Oldest.IsZero() || l.DecidedAt.Before(w.basis.Oldest) {
				w.basis.Oldest = l.DecidedAt
			}
		}
		if err := w.fn(*j); err != nil {
			return err
		}
	}
	w.batch = w.batch[:0]
	if w.o.Progress != nil {
		w.o.Progress(w.basis.Letters)
	}
	return nil
}

// Stored is what was decided about a letter when somebody last looked.
func Stored(l letter.Letter) Judgement {
	j := Judgement{Letter: l, Fingerprint: l.Fingerprint, Decision: Decision(l.Decision)}
	j.Code, j.Target = l.Known()
	if !l.DecidedAt.IsZero() {
		j.Rule = messages.T("as decided at %s", l.DecidedAt.Format(time.RFC3339))
	}
	return j
}

// Note stores what was judged of an open letter, for counts and lists to come.
func (d *Desk) Note(ctx context.Context, j Judgement) (bool, error) {
	return d.Letters.Note(ctx, j.Letter, string(j.Decision), j.Code, j.Target, d.Now())
}
