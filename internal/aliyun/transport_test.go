package aliyun

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
)

// front is a server that counts the connections it accepts and the handshakes
// that took a session up again.
type front struct {
	*httptest.Server
	accepted, resumed atomic.Int64
	meet              *sync.WaitGroup // where set, calls wait until all have met
}

func newFront(t *testing.T) *front {
	f := new(front)
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS.DidResume {
			f.resumed.Add(1)
		}
		if f.meet != nil {
			f.meet.Done()
			f.meet.Wait()
		}
		_, _ = io.WriteString(w, "answer")
	}))
	f.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			f.accepted.Add(1)
		}
	}
	f.StartTLS()
	t.Cleanup(f.Close)
	return f
}

func (f *front) transport(t *testing.T, idle int) *http.Transport {
	transport := NewTransport(idle)
	transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	transport.TLSClientConfig.RootCAs.AddCert(f.Certificate())
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

func call(t *testing.T, transport http.RoundTripper, url string) {
	t.Helper()
	callIn(t.Context(), t, transport, url)
}

func callIn(ctx context.Context, t *testing.T, transport http.RoundTripper, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
}

func TestCallsOneAfterTheOtherTakeOneConnection(t *testing.T) {
	f := newFront(t)
	transport := f.transport(t, 2)
	for range 20 {
		call(t, transport, f.URL)
	}
	if n := f.accepted.Load(); n != 1 {
		t.Errorf("20 calls took %d connections", n)
	}
}

func TestCallsSideBySideKeepTheirConnectionsForTheNextOnes(t *testing.T) {
	const width = 32 // a batch's members write two objects at once
	f := newFront(t)
	transport := f.transport(t, 64)
	for range 3 {
		f.meet = new(sync.WaitGroup)
		f.meet.Add(width)
		var done, back sync.WaitGroup
		back.Add(width)
		// A connection comes back a moment after its answer was read.
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{PutIdleConn: func(err error) {
			if err != nil {
				t.Error(err)
			}
			back.Done()
		}})
		for range width {
			done.Go(func() { callIn(ctx, t, transport, f.URL) })
		}
		done.Wait()
		back.Wait()
	}
	if n := f.accepted.Load(); n != width {
		t.Errorf("three rounds of %d calls took %d connections", width, n)
	}
}

func TestAConnectionThatComesBackTakesItsTLSSessionUpAgain(t *testing.T) {
	f := newFront(t)
	transport := f.transport(t, 2)
	for range 3 {
		call(t, transport, f.URL)
		transport.CloseIdleConnections()
	}
	if accepted, resumed := f.accepted.Load(), f.resumed.Load(); accepted != 3 || resumed != 2 {
		t.Errorf("%d connections, of which %d took a session up again", accepted, resumed)
	}
}
