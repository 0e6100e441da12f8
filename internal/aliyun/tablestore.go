package aliyun

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
)

// Table names a table and its one string primary key column.
type Table struct {
	Name string
	Key  string
}

// Row holds a row's attribute columns: string, int64, bool, float64 or []byte.
type Row map[string]any

// Tablestore reaches one instance. It is safe for concurrent use: each call has
// an SDK client for itself over the shared transport, because one shared by
// goroutines races and none takes a context.
type Tablestore struct {
	endpoint, instance string
	o                  Options
	clients            sync.Pool // of *lent
}

// callTimeout bounds a call whose context has no deadline.
const callTimeout = 30 * time.Second

// NewTablestore returns a client for an instance; it makes no call.
func NewTablestore(endpoint, instance string, o Options) (*Tablestore, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Tablestore{endpoint: endpoint, instance: instance, o: o}, nil
}

// call runs one SDK call with ctx and this invocation's credentials, and turns
// the SDK's panics on odd answers into errors.
func (t *Tablestore) call(ctx context.Context, op string, fn func(*tablestore.TableStoreClient) error) (err error) {
	creds, err := t.o.Credentials(ctx)
	if err != nil {
		return fmt.Errorf("call tablestore %s: %w", op, err)
	}
	countTables(ctx)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	l := t.borrow(creds, bound{ctx, t.o.Transport, t.o.Now, t.o.Skew})
	defer func() {
		if p := recover(); p != nil {
			err = &Error{Service: "tablestore", Op: op, Kind: KindUnknown, Code: "SDKPanic"}
		}
	}()
	err = fn(l.client)
	t.giveBack(l) // not where it panicked: nobody knows what is left in it
	if err != nil {
		return tablestoreError(op, err)
	}
	return nil
}

func primaryKey(t Table, key string) *tablestore.PrimaryKey {
	pk := new(tablestore.PrimaryKey)
	pk.AddPrimaryKeyColumn(t.Key, key)
	return pk
}

// Insert writes a new row on the condition that there is none under its key.
// An *Error of KindCondition or KindUnknown says nothing about whose row is
// there: read it.
func (t *Tablestore) Insert(ctx context.Context, table Table, key string, row Row) error {
	change := &tablestore.PutRowChange{TableName: table.Name, PrimaryKey: primaryKey(table, key)}
	for _, name := range slices.Sorted(maps.Keys(row)) {
		change.AddColumn(name, row[name])
	}
	change.SetCondition(tablestore.RowExistenceExpectation_EXPECT_NOT_EXIST)
	return about(table.Name, t.call(ctx, "PutRow", func(c *tablestore.TableStoreClient) error {
		_, err := c.PutRow(&tablestore.PutRowRequest{PutRowChange: change})
		return err
	}))
}

// Update changes named columns on the condition that the row is there and that
// its latest `revision` column equals revision. A nil value removes a column.
func (t *Tablestore) Update(ctx context.Context, table Table, key string, columns Row, revision int64) error {
	change := &tablestore.UpdateRowChange{TableName: table.Name, PrimaryKey: primaryKey(table, key)}
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		if columns[name] == nil {
			change.DeleteColumn(name)
		} else {
			change.PutColumn(name, columns[name])
		}
	}
	change.SetCondition(tablestore.RowExistenceExpectation_EXPECT_EXIST)
	// By default a missing column passes and any old version may match.
	cond := tablestore.NewSingleColumnCondition("revision", tablestore.CT_EQUAL, revision)
	cond.FilterIfMissing, cond.LatestVersionOnly = true, true
	change.SetColumnCondition(cond)
	return about(table.Name, t.call(ctx, "UpdateRow", func(c *tablestore.TableStoreClient) error {
		_, err := c.UpdateRow(&tablestore.UpdateRowRequest{UpdateRowChange: change})
		return err
	}))
}

// Get reads a row; ok is false where there is none.
func (t *Tablestore) Get(ctx context.Context, table Table, key string) (row Row, ok bool, err error) {
	criteria := &tablestore.SingleRowQueryCriteria{TableName: table.Name, PrimaryKey: primaryKey(table, key), MaxVersion: 1}
	err = about(table.Name, t.call(ctx, "GetRow", func(c *tablestore.TableStoreClient) error {
		resp, err := c.GetRow(&tablestore.GetRowRequest{SingleRowQueryCriteria: criteria})
		if err != nil {
			return err
		}
		if ok = len(resp.PrimaryKey.PrimaryKeys) > 0; ok {
			row = rowOf(resp.Columns)
		}
		return nil
	}))
	return row, ok, err
}

func rowOf(columns []*tablestore.AttributeColumn) Row {
	row := make(Row, len(columns))
	for _, c := range columns {
		row[c.ColumnName] = c.Value
	}
	return row
}

// Page is one answer of a scan.
type Page struct {
	Keys []string
	Rows []Row
	Next string // the key to go on with; "" once the scan is complete
}

// Scan reads rows by rising key, from a key on (inclusive, "" for the first) up
// to a key (exclusive, "" for the last), limit rows at most a page. columns
// narrows what is read; empty reads all.
func (t *Tablestore) Scan(ctx context.Context, table Table, from, to string, limit int, columns []string) (Page, error) {
	return t.scan(ctx, table, from, to, limit, columns, nil)
}

func (t *Tablestore) scan(ctx context.Context, table Table, from, to string, limit int, columns []string, filter tablestore.ColumnFilter) (Page, error) {
	start, end := new(tablestore.PrimaryKey), new(tablestore.PrimaryKey)
	if from == "" {
		start.AddPrimaryKeyColumnWithMinValue(table.Key)
	} else {
		start.AddPrimaryKeyColumn(table.Key, from)
	}
	if to == "" {
		end.AddPrimaryKeyColumnWithMaxValue(table.Key)
	} else {
		end.AddPrimaryKeyColumn(table.Key, to)
	}
	var page Page
	err := about(table.Name, t.call(ctx, "GetRange", func(c *tablestore.TableStoreClient) error {
		resp, err := c.GetRange(&tablestore.GetRangeRequest{RangeRowQueryCriteria: &tablestore.RangeRowQueryCriteria{
			TableName: table.Name, StartPrimaryKey: start, EndPrimaryKey: end, Direction: tablestore.FORWARD,
			MaxVersion: 1, Limit: int32(limit), ColumnsToGet: columns, Filter: filter,
		}})
		if err != nil {
			return err
		}
		for _, r := range resp.Rows {
			key, ok := r.PrimaryKey.PrimaryKeys[0].Value.(string)
			if !ok {
				return fmt.Errorf("scan %s: primary key is no string", table.Name)
			}
			page.Keys = append(page.Keys, key)
			page.Rows = append(page.Rows, rowOf(r.Columns))
		}
		if resp.NextStartPrimaryKey != nil && len(resp.NextStartPrimaryKey.PrimaryKeys) > 0 {
			page.Next, _ = resp.NextStartPrimaryKey.PrimaryKeys[0].Value.(string)
		}
		return nil
	}))
	return page, err
}

// CreateTable creates a table with one string key, one version a column and no
// time to live (cells would expire one by one). A table that is there already
// is an *Error of KindExists.
func (t *Tablestore) CreateTable(ctx context.Context, table Table) error {
	meta := &tablestore.TableMeta{TableName: table.Name}
	meta.AddPrimaryKeyColumn(table.Key, tablestore.PrimaryKeyType_STRING)
	return about(table.Name, t.call(ctx, "CreateTable", func(c *tablestore.TableStoreClient) error {
		_, err := c.CreateTable(&tablestore.CreateTableRequest{
			TableMeta:          meta,
			TableOption:        &tablestore.TableOption{TimeToAlive: -1, MaxVersion: 1},
			ReservedThroughput: &tablestore.ReservedThroughput{},
		})
		return err
	}))
}

// TableShape is what a table is like.
type TableShape struct {
	Keys        []string // primary key columns: name, a space and STRING, INTEGER or BINARY
	MaxVersions int
	TTL         int // seconds that a cell lives; -1 for ever
}

// Describe returns what a table is like. One that is not there is an *Error of
// KindNotFound.
func (t *Tablestore) Describe(ctx context.Context, table Table) (TableShape, error) {
	var s TableShape
	err := t.call(ctx, "DescribeTable", func(c *tablestore.TableStoreClient) error {
		resp, err := c.DescribeTable(&tablestore.DescribeTableRequest{TableName: table.Name})
		if err != nil {
			return err
		}
		for _, k := range resp.TableMeta.SchemaEntry {
			s.Keys = append(s.Keys, *k.Name+" "+keyTypes[*k.Type])
		}
		s.MaxVersions, s.TTL = resp.TableOption.MaxVersion, resp.TableOption.TimeToAlive
		return nil
	})
	return s, about(table.Name, err)
}

var keyTypes = map[tablestore.PrimaryKeyType]string{
	tablestore.PrimaryKeyType_STRING: "STRING", tablestore.PrimaryKeyType_INTEGER: "INTEGER", tablestore.PrimaryKeyType_BINARY: "BINARY",
}

// Fits says what is wrong with the shape where it does not have the key, the
// versions or the lifetime that oncegate relies on; "" where it has.
func (s TableShape) Fits(table Table) string {
	switch {
	case len(s.Keys) != 1 || s.Keys[0] != table.Key+" STRING":
		return "its primary key is not the one string column " + table.Key
	case s.MaxVersions != 1:
		return fmt.Sprintf("max versions is %d, must be 1", s.MaxVersions)
	case s.TTL != -1:
		return fmt.Sprintf("time to live is %d s, must be -1 (never)", s.TTL)
	}
	return ""
}

// CheckTable returns an error that says what is wrong where a table does not
// have the key, the versions or the lifetime that oncegate relies on.
func (t *Tablestore) CheckTable(ctx context.Context, table Table) error {
	s, err := t.Describe(ctx, table)
	if err != nil {
		return err
	}
	if wrong := s.Fits(table); wrong != "" {
		return fmt.Errorf("check table %s: %s", table.Name, wrong)
	}
	return nil
}
