package targettest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestDirectivesAreRead(t *testing.T) {
	for _, tc := range []struct {
		text string
		want []directive
	}{
		{"", nil},
		{"plain [text] with ]] and [[", nil},
		{"[[targeted]] [[target: x]] [[Target cut]] [[target", nil},
		{"a[[target cut]]b", []directive{{cut: true, times: 1}}},
		{"[[target  delay=5s\ttimes=3 ]]", []directive{{delay: 5 * time.Second, times: 3}}},
		{"[[target status=429 retry_after=0 times=-1]]", []directive{{status: 429, retryAfter: "0", times: -1}}},
		{"x [[target code=A status=599]][[target cut_after delay=1ms delay_after=2ms]] y", []directive{
			{status: 599, code: "A", times: 1},
			{cutAfter: true, delay: time.Millisecond, delayAfter: 2 * time.Millisecond, times: 1},
		}},
		{"[[[[target cut]]target cut]]", []directive{{cut: true, times: 1}}},
	} {
		text, broken := strings.CutSuffix(tc.text, " [[target")
		got, err := parseDirectives([]string{text})
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if _, err := parseDirectives([]string{tc.text}); (err != nil) != broken {
			t.Errorf("%q: %v", tc.text, err)
		}
	}
}

func TestDirectivesThatSayNothingClearAreRefused(t *testing.T) {
	for _, words := range []string{
		"", "times=2", "oops", "cut cut_after", "cut status=400", "status=429 cut_after", "cut cut", "cut=1", "cut_after=",
		"status", "status=", "status=200", "status=399", "status=600", "status=x", "retry_after=1", "cut retry_after=1",
		"status=429 retry_after=soon", "status=429 retry_after=-1", "code=A", "cut code=A", "status=400 code", "status=400 code=",
		"delay=5", "delay=-1s", "delay", "delay_after", "delay_after=-1s", "cut delay_after=1s", "status=503 delay_after=1s",
		"delay_after=0s cut", "cut times=0", "cut times=-2", "cut times=x", "cut times=1 times=2", "Status=429",
	} {
		if got, err := parseDirectives([]string{"[[target " + words + "]]"}); err == nil || got != nil {
			t.Errorf("%q: %+v, %v", words, got, err)
		}
	}
}

func TestADirectiveDoesNotReachIntoTheNextText(t *testing.T) {
	if got, err := parseDirectives([]string{"[[target cut]]", "[[target ", "cut]]"}); err == nil || !strings.HasPrefix(err.Error(), "directive 2 ") {
		t.Errorf("%+v, %v", got, err)
	}
	got, err := parseDirectives([]string{"[[target cut]]", "[[target", " cut_after]]"}[:1])
	if err != nil || len(got) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestPickCountsThroughTheScript(t *testing.T) {
	a, b, c := directive{cut: true, times: 2}, directive{cutAfter: true, times: 1}, directive{status: 503, times: -1}
	script := []directive{a, b, c, a}
	for n, want := range []directive{a, a, b, c, c, c} {
		if got := pick(script, n); got != want {
			t.Errorf("call %d: %+v, want %+v", n+1, got, want)
		}
	}
	if got := pick(script[:2], 3); got != (directive{}) {
		t.Errorf("after the script: %+v", got)
	}
}

func FuzzDirectives(f *testing.F) {
	for _, seed := range []string{
		"", "[[target cut]]", "[[target", "a [[target status=429 retry_after=1 times=2]] b [[targetx]]", "[[target delay=5s]]",
		"[[[[target cut]]target cut]]", "[[target delay_after=1h cut_after times=-1]]", "[[target status=400 code=\u00e9]]", "[[target\xff]]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		script, err := parseDirectives([]string{text})
		if err != nil {
			if script != nil || !strings.HasPrefix(err.Error(), "directive ") {
				t.Fatalf("%+v, %v", script, err)
			}
			return
		}
		if len(script)*len("[[target cut]]") > len(text) {
			t.Fatalf("%d directives in %d bytes", len(script), len(text))
		}
		for _, d := range script {
			ends := 0
			for _, one := range []bool{d.status != 0, d.cut, d.cutAfter} {
				if one {
					ends++
				}
			}
			if ends > 1 || d.times == 0 || d.times < -1 || d.delay < 0 || d.delayAfter < 0 || (d.delayAfter > 0 && (d.cut || d.status != 0)) {
				t.Fatalf("directive %+v", d)
			}
			if (d.status != 0 && (d.status < 400 || d.status > 599)) || (d.status == 0 && d.code+d.retryAfter != "") {
				t.Fatalf("directive %+v", d)
			}
		}
		for n := range 8 {
			if d := pick(script, n); d != (directive{}) && !slices.Contains(script, d) {
				t.Fatalf("call %d gets %+v", n, d)
			}
		}
		if !utf8.ValidString(text) {
			return
		}
		body, err := json.Marshal(map[string]any{text: []any{1, text}, "number": text})
		if err != nil {
			t.Fatal(err)
		}
		number, texts, err := readBody(body)
		if text != "number" && (err != nil || number != text || !slices.Equal(texts, []string{text, text})) {
			t.Fatalf("%s became %q and %q, %v", body, number, texts, err)
		}
	})
}
