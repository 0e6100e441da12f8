package aliyun

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"golang.org/x/sync/errgroup"
)

// Where is a condition on the newest value of one column, tested by the service.
type Where struct {
	Column string
	Equals any
	Not    bool // the value must differ
	// Missing lets a row without the column pass; such a row fails otherwise.
	Missing bool
}

// ScanOptions narrow a scan. The zero value reads all columns of all rows.
type ScanOptions struct {
	From, To string // keys, from inclusive, to exclusive; "" for the first and the last
	// Columns are what is read; empty reads all. A row that has none of them is
	// not seen at all: name one that every row has.
	Columns  []string
	Filter   []Where // all must hold
	Page     int     // rows read by one call; 0 means 1000
	Parallel int     // calls at a time; 0 means 4
}

// buffered is how many pages of one range wait for their turn.
const buffered = 2

// ScanAll calls each with all pages by rising key, from its own goroutine. The
// first call covers a small table whole. Beyond that the rest is split by the
// first two hex digits of its keys, and the ranges are read ahead in parallel: at
// most Parallel times three pages are held. The first error ends it.
func (t *Tablestore) ScanAll(ctx context.Context, table Table, o ScanOptions, each func(Page) error) error {
	if o.Page == 0 {
		o.Page = 1000
	}
	if o.Parallel == 0 {
		o.Parallel = 4
	}
	first, err := t.ScanPage(ctx, table, o)
	if err != nil {
		return err
	}
	if len(first.Keys) > 0 {
		if err := each(first); err != nil {
			return err
		}
	}
	if first.Next == "" {
		return nil
	}
	bounds := hexBounds(first.Next, o.To)
	pages := make([]chan Page, len(bounds)-1)
	for i := range pages {
		pages[i] = make(chan Page, buffered)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	var taken atomic.Int64
	for range min(o.Parallel, len(pages)) {
		group.Go(func() error {
			for {
				// Ranges are taken in order, so the one that is waited for is always being read.
				i := int(taken.Add(1)) - 1
				if i >= len(pages) {
					return nil
				}
				part := o
				part.From, part.To = bounds[i], bounds[i+1]
				if err := t.readRange(ctx, table, part, pages[i]); err != nil {
					return err
				}
				close(pages[i])
			}
		})
	}
	failed := func() error {
		for _, p := range pages {
			for more := true; more; {
				select {
				case page, ok := <-p:
					if more = ok; ok {
						if err := each(page); err != nil {
							return err
						}
					}
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return nil
	}()
	if failed != nil && ctx.Err() == nil {
		cancel()
		_ = group.Wait()
		return failed
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return failed
}

func (t *Tablestore) readRange(ctx context.Context, table Table, o ScanOptions, into chan<- Page) error {
	for more := true; more; more = o.From != "" {
		page, err := t.ScanPage(ctx, table, o)
		if err != nil {
			return err
		}
		o.From = page.Next
		if len(page.Keys) == 0 {
			continue
		}
		select {
		case into <- page:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// hexBounds cuts the keys from one to another ("" for the last) at each pair of
// hex digits between them.
func hexBounds(from, to string) []string {
	bounds := []string{from}
	for i := range 256 {
		if b := fmt.Sprintf("%02x", i); b > from && (to == "" || b < to) {
			bounds = append(bounds, b)
		}
	}
	return append(bounds, to)
}

// ScanPage reads the first page of a scan; go on with its Next as From.
func (t *Tablestore) ScanPage(ctx context.Context, table Table, o ScanOptions) (Page, error) {
	columns := o.Columns
	if len(columns) > 0 {
		// The service filters what it has projected.
		for _, w := range o.Filter {
			if !slices.Contains(columns, w.Column) {
				columns = append(slices.Clone(columns), w.Column)
			}
		}
	}
	return t.scan(ctx, table, o.From, o.To, o.Page, columns, filterOf(o.Filter))
}

func filterOf(all []Where) tablestore.ColumnFilter {
	single := func(w Where) *tablestore.SingleColumnCondition {
		op := tablestore.CT_EQUAL
		if w.Not {
			op = tablestore.CT_NOT_EQUAL
		}
		c := tablestore.NewSingleColumnCondition(w.Column, op, w.Equals)
		c.FilterIfMissing, c.LatestVersionOnly = !w.Missing, true
		return c
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return single(all[0])
	}
	and := tablestore.NewCompositeColumnCondition(tablestore.LO_AND)
	for _, w := range all {
		and.AddFilter(single(w))
	}
	return and
}

// Delete removes a row on the condition that it is there and that its latest
// `revision` column equals revision.
func (t *Tablestore) Delete(ctx context.Context, table Table, key string, revision int64) error {
	cond := tablestore.NewSingleColumnCondition("revision", tablestore.CT_EQUAL, revision)
	cond.FilterIfMissing, cond.LatestVersionOnly = true, true
	return t.remove(ctx, table, key, cond)
}

// DeleteFixed removes a row of a table whose rows are never changed.
func (t *Tablestore) DeleteFixed(ctx context.Context, table Table, key string) error {
	return t.remove(ctx, table, key, nil)
}

func (t *Tablestore) remove(ctx context.Context, table Table, key string, cond *tablestore.SingleColumnCondition) error {
	change := &tablestore.DeleteRowChange{TableName: table.Name, PrimaryKey: primaryKey(table, key)}
	change.SetCondition(tablestore.RowExistenceExpectation_EXPECT_EXIST)
	if cond != nil {
		change.SetColumnCondition(cond)
	}
	return about(table.Name, t.call(ctx, "DeleteRow", func(c *tablestore.TableStoreClient) error {
		_, err := c.DeleteRow(&tablestore.DeleteRowRequest{DeleteRowChange: change})
		return err
	}))
}
