package otstest

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// Options configure a Server.
type Options struct {
	// Dir keeps the tables in <Dir>/tablestore.db, from where New loads them
	// again; "" keeps them in memory only.
	Dir string
	// Instance is the instance name that requests must carry; "" means "oncegate".
	Instance string
	// Credentials are what is accepted. Required.
	Credentials *cloudtest.Credentials
	// Now is the service's clock; nil means time.Now.
	Now func() time.Time
}

// Server is one instance of the service. All methods are safe for concurrent
// use, but Start and Close belong to one owner.
type Server struct {
	// Faults plans disturbances, counts calls and hooks into them. An operation
	// is the name of the action ("PutRow"); the target of a call on one row is
	// "table/<first primary key value>" (binary ones in hex), that of any other
	// call is the name of its first table.
	Faults *cloudtest.Faults

	engine   *engine
	service  *cloudtest.Service
	listener *cloudtest.Listener
}

// Row is a copy of one stored row.
type Row struct {
	PrimaryKey []Column // in the order of the schema
	// Columns holds the newest version of every attribute column that has not
	// expired: string, int64, float64, bool or []byte.
	Columns map[string]any
	// Timestamps holds the time stamps of those versions, in milliseconds.
	Timestamps map[string]int64
}

// Column is a name and a value: string, int64 or []byte in a primary key.
type Column struct {
	Name  string
	Value any
}

// New makes a server and loads what Options.Dir holds. It fails where no
// credentials are given, where another process holds the file, and where the
// file cannot be read.
func New(o Options) (*Server, error) {
	if o.Credentials == nil {
		return nil, errors.New("tablestore stand-in needs credentials")
	}
	if o.Instance == "" {
		o.Instance = "oncegate"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	e := &engine{instance: o.Instance, creds: o.Credentials, now: o.Now}
	var err error
	if o.Dir != "" {
		if e.store, err = openStore(o.Dir); err != nil {
			return nil, err
		}
	}
	if e.tables, err = e.store.load(); err != nil {
		return nil, errors.Join(err, e.store.close())
	}
	faults := &cloudtest.Faults{}
	return &Server{
		Faults:  faults,
		engine:  e,
		service: &cloudtest.Service{Name: "tablestore", Engine: e, Faults: faults, Now: o.Now},
	}, nil
}

// Start listens on a free port of 127.0.0.1. It fails if the server listens already.
func (s *Server) Start() error {
	if s.listener != nil {
		return errors.New("tablestore stand-in listens already")
	}
	l, err := cloudtest.Listen(s.service.Handler())
	if err != nil {
		return fmt.Errorf("listen for tablestore stand-in: %w", err)
	}
	s.listener = l
	return nil
}

// Endpoint is the URL for the client SDK, http://127.0.0.1:port; "" before Start.
func (s *Server) Endpoint() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.URL
}

// Transport reaches the server without a socket, whatever the URL says. It
// needs no Start, takes part in faults and hooks, and works in a testing/synctest bubble.
func (s *Server) Transport() http.RoundTripper { return s.service.Transport() }

// Close stops the listener, cuts its connections and releases the file.
func (s *Server) Close() error {
	var err error
	if s.listener != nil {
		err = s.listener.Close()
	}
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	return errors.Join(err, s.engine.store.close())
}

// Rows copies a table in the order of its primary key; nil if there is no such table.
func (s *Server) Rows(table string) []Row {
	e := s.engine
	now := e.now().UnixMilli()
	e.mu.RLock()
	defer e.mu.RUnlock()
	t, ok := e.tables[table]
	if !ok {
		return nil
	}
	rows := make([]Row, 0, len(t.rows))
	for key := range t.keys.all() {
		rows = append(rows, t.copyOf(t.rows[key], now))
	}
	return rows
}

func (t *table) copyOf(r *row, now int64) Row {
	out := Row{Columns: map[string]any{}, Timestamps: map[string]int64{}}
	for i, v := range r.pk {
		out.PrimaryKey = append(out.PrimaryKey, Column{t.schema[i].name, v.plain()})
	}
	for _, c := range r.columns {
		if live := t.limits.live(c, now); len(live) > 0 {
			out.Columns[c.name], out.Timestamps[c.name] = live[0].val.plain(), live[0].at
		}
	}
	return out
}
