package aliyun

import (
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// front is a server that counts the connections it accepts and the handshakes
// that took a session up again.
type front struct {
	*httptest.Server
	accepted, resumed atomic.Int64
	meet              chan struct{} // where set, calls wait until it is closed
}

func newFront(t *testing.T) *front {
	f := new(front)
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS.DidResume {
			f.resumed.Add(1)
		}
		if f.meet != nil {
			<-f.meet
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
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
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
		f.meet = make(chan struct{})
		var arrived, done sync.WaitGroup
		for range width {
			arrived.Add(1)
			done.Go(func() {
				arrived.Done()
				call(t, transport, f.URL)
			})
		}
		arrived.Wait()
		close(f.meet)
		done.Wait()
	}
	// A call may be dialled for while the connection it could have had comes back.
	if n := f.accepted.Load(); n > 2*width {
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
