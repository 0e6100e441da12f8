package report

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// browser is a headless Chromium that is spoken to through pipes (the DevTools
// protocol, messages ended by a zero byte).
type browser struct {
	t       *testing.T
	to      *os.File
	from    *bufio.Reader
	id      int
	session string
	events  []message
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium on this machine (Debian: apt-get install chromium)")
	}
	theirIn, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirIn.Close()
	_ = theirOut.Close()
	b := &browser{t: t, to: to, from: bufio.NewReader(from)}
	t.Cleanup(func() {
		_, _ = to.WriteString(`{"id":0,"method":"Browser.close"}` + "\x00")
		_, _ = io.Copy(io.Discard, from)
		_ = cmd.Wait()
		_ = to.Close()
		_ = from.Close()
	})
	var target struct{ TargetID string }
	b.into(b.call("Target.createTarget", map[string]any{"url": "about:blank"}), &target)
	var attached struct{ SessionID string }
	b.into(b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}), &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Network", "Log", "Runtime", "Audits"} {
		b.call(domain+".enable", nil)
	}
	return b
}

func (b *browser) into(raw json.RawMessage, v any) {
	b.t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) read() message {
	b.t.Helper()
	raw, err := b.from.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("chromium: %v", err)
	}
	var m message
	b.into(raw[:len(raw)-1], &m)
	if m.Method != "" {
		b.events = append(b.events, m)
	}
	return m
}

func (b *browser) call(method string, params any) json.RawMessage {
	b.t.Helper()
	b.id++
	if params == nil {
		params = map[string]any{}
	}
	call := map[string]any{"id": b.id, "method": method, "params": params}
	if b.session != "" {
		call["sessionId"] = b.session
	}
	raw, err := json.Marshal(call)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(raw, 0)); err != nil {
		b.t.Fatalf("chromium: %v", err)
	}
	for {
		if m := b.read(); m.ID == b.id {
			if m.Error != nil {
				b.t.Fatalf("%s: %s", method, m.Error)
			}
			return m.Result
		}
	}
}

// open shows a page and waits until it is there.
func (b *browser) open(path string, width int, scheme string) {
	b.t.Helper()
	b.look(width, scheme)
	b.events = nil
	b.call("Page.navigate", map[string]any{"url": (&url.URL{Scheme: "file", Path: path}).String()})
	for !b.saw("Page.loadEventFired") {
		b.read()
	}
}

// look shows the page as a device of this width would, light or dark.
func (b *browser) look(width int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600})
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
}

func (b *browser) saw(method string) bool {
	for _, e := range b.events {
		if e.Method == method {
			return true
		}
	}
	return false
}

func (b *browser) eval(js string) string {
	b.t.Helper()
	var r struct {
		Result struct{ Value any }
	}
	b.into(b.call("Runtime.evaluate", map[string]any{"expression": js, "returnByValue": true}), &r)
	return fmt.Sprint(r.Result.Value)
}

func (b *browser) shot(file string) {
	b.t.Helper()
	var r struct{ Data string }
	b.into(b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}), &r)
	raw, err := base64.StdEncoding.DecodeString(r.Data)
	if err == nil {
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// complaints is what the browser found wrong, and what it asked for beside the folder.
func (b *browser) complaints(dir string) []string {
	b.eval("1") // what was on its way has come
	var all []string
	for _, e := range b.events {
		switch e.Method {
		case "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Audits.issueAdded", "Page.javascriptDialogOpening":
			all = append(all, e.Method+" "+string(e.Params))
		case "Network.requestWillBeSent":
			var p struct{ Request struct{ URL string } }
			b.into(e.Params, &p)
			if !strings.HasPrefix(p.Request.URL, "file://"+dir+"/") {
				all = append(all, "asked for "+p.Request.URL)
			}
		}
	}
	return all
}

// layout measures what a page must not do at any width.
const layout = `JSON.stringify({
  over: Math.max(0, document.documentElement.scrollWidth - window.innerWidth),
  clipped: [...document.querySelectorAll('h1,h2,.tiles li,.banner,.facts,.sum')].filter(e => e.scrollWidth > e.clientWidth + 1).length,
  styled: getComputedStyle(document.querySelector('main')).maxWidth,
  dark: getComputedStyle(document.body).backgroundColor,
  drawn: [...document.querySelectorAll('svg rect')].every(r => getComputedStyle(r).fill !== 'rgb(0, 0, 0)'),
})`

func TestChromiumShowsEveryPageWithoutComplaintAtEveryWidthLightAndDark(t *testing.T) {
	b := newBrowser(t)
	dir := t.TempDir()
	f, _ := write(t, busy(t).source(), nil)
	f.store(t, dir)
	shots := os.Getenv("ONCEGATE_SHOTS") // a folder to look at
	background := map[string]string{}
	for name := range f.files {
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		b.open(filepath.Join(dir, name), 390, "light")
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int{390, 1280} {
				b.look(width, scheme)
				var l struct {
					Over, Clipped int
					Styled, Dark  string
					Drawn         bool
				}
				b.into(json.RawMessage(b.eval(layout)), &l)
				if l.Over != 0 || l.Clipped != 0 || l.Styled != "1240px" || !l.Drawn {
					t.Errorf("%s at %d, %s: %+v", name, width, scheme, l)
				}
				background[scheme] = l.Dark
				if shots != "" {
					b.shot(filepath.Join(shots, fmt.Sprintf("%s-%d-%s.png", strings.ReplaceAll(strings.TrimSuffix(name, ".html"), "/", "_"), width, scheme)))
				}
			}
		}
		for _, c := range b.complaints(dir) {
			t.Errorf("%s: %s", name, c)
		}
	}
	if background["light"] == background["dark"] {
		t.Errorf("light and dark are both %s", background["light"])
	}
}

func TestHostileValuesAreInertInChromium(t *testing.T) {
	b := newBrowser(t)
	dir := t.TempDir()
	f, _ := write(t, hostile(), func(o *Options) { o.Environment = attacks[1] })
	f.store(t, dir)
	for name := range f.files {
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		b.open(filepath.Join(dir, name), 390, "light")
		for _, c := range b.complaints(dir) {
			t.Errorf("%s: %s", name, c)
		}
		got := b.eval(`JSON.stringify([window.pwned === undefined, document.querySelectorAll('script,img,iframe,svg svg,[onload],[onerror],[style]').length, ` +
			`[...document.links].filter(a => a.protocol !== 'file:').length, document.documentElement.scrollWidth - window.innerWidth, document.querySelectorAll('head title').length])`)
		if got != `[true,0,0,0,1]` {
			t.Errorf("%s: %s", name, got)
		}
	}
}
