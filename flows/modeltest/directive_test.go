package modeltest

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestDirectivesAreRead(t *testing.T) {
	for _, tc := range []struct {
		content, rest string
		want          []directive
	}{
		{"", "", nil},
		{"plain [text] with ]] and [[", "plain [text] with ]] and [[", nil},
		{"[[modelling]] [[model: x]] [[Model cut]]", "[[modelling]] [[model: x]] [[Model cut]]", nil},
		{"a[[model cut]]b", "ab", []directive{{act: actCut, times: 1}}},
		{"[[model  delay=5s\ttimes=3 ]]", "", []directive{{delay: 5 * time.Second, times: 3}}},
		{"[[model status=429 retry_after=0 times=-1]]", "", []directive{{act: actStatus, status: 429, retryAfter: "0", times: -1}}},
		{
			"x [[model error200 code=A]][[model finish=length]] y", "x  y",
			[]directive{{act: actError200, code: "A", times: 1}, {act: actFinish, finish: "length", times: 1}},
		},
		{"[[model nochoices delay=1ms]][[model empty]][[model garbage]]", "", []directive{
			{act: actNoChoices, delay: time.Millisecond, times: 1},
			{act: actEmpty, times: 1},
			{act: actGarbage, times: 1},
		}},
	} {
		got, rest, err := parseDirectives(tc.content)
		if err != nil || rest != tc.rest || !slices.Equal(got, tc.want) {
			t.Errorf("%q: %+v, rest %q, %v", tc.content, got, rest, err)
		}
	}
}

func TestDirectivesThatSayNothingClearAreRefused(t *testing.T) {
	for _, words := range []string{
		"", "times=2", "oops", "cut garbage", "cut status=400", "status=429 finish=stop", "cut cut", "cut=1", "empty=",
		"status", "status=", "status=200", "status=399", "status=600", "status=x", "finish", "finish=tool_calls",
		"retry_after=1", "cut retry_after=1", "status=429 retry_after=soon", "status=429 retry_after=-1", "code=A",
		"cut code=A", "status=400 code", "delay=5", "delay=-1s", "delay", "cut times=0", "cut times=-2", "cut times=x",
		"cut times=1 times=2", "Status=429",
	} {
		content := "[[model " + words + "]]"
		if got, rest, err := parseDirectives(content); err == nil || got != nil || rest != "" {
			t.Errorf("%q: %+v, rest %q, %v", content, got, rest, err)
		}
	}
	for _, content := range []string{"[[model", "[[model cut", "[[model cut] ]", "a [[model]]"} {
		if _, _, err := parseDirectives(content); err == nil {
			t.Errorf("%q was read", content)
		}
	}
}

func TestPickCountsThroughTheScript(t *testing.T) {
	script := []directive{{act: actCut, times: 2}, {act: actEmpty, times: 1}, {act: actGarbage, times: -1}, {act: actStatus, times: 1}}
	for n, want := range []act{actCut, actCut, actEmpty, actGarbage, actGarbage, actGarbage} {
		if got := pick(script, n); got.act != want {
			t.Errorf("call %d: %v, want %v", n+1, got.act, want)
		}
	}
	if got := pick(script[:2], 3); got != (directive{}) {
		t.Errorf("after the script: %+v", got)
	}
}

func FuzzDirectives(f *testing.F) {
	for _, seed := range []string{
		"", "[[model cut]]", "[[model", "a [[model status=429 retry_after=1 times=2]] b [[modelx]]", "[[model delay=5s]]",
		"[[[[model cut]]model cut]]", "[[model finish=length times=-1]]", "[[model error200 code=\u00e9]]", "[[model\xff]]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		script, rest, err := parseDirectives(content)
		if err != nil {
			if script != nil || rest != "" || !strings.HasPrefix(err.Error(), "directive ") {
				t.Fatalf("%+v, %q, %v", script, rest, err)
			}
			return
		}
		if !strings.Contains(content, opening) && (len(script) != 0 || rest != content) {
			t.Fatalf("plain text became %+v and %q", script, rest)
		}
		if len(rest)+len(script)*len("[[model cut]]") > len(content) {
			t.Fatalf("%d directives and %d bytes of %d", len(script), len(rest), len(content))
		}
		for _, d := range script {
			if d.times == 0 || d.times < -1 || d.delay < 0 {
				t.Fatalf("directive %+v", d)
			}
			if (d.act == actStatus) != (d.status >= 400 && d.status <= 599) || (d.retryAfter != "" && d.act != actStatus) {
				t.Fatalf("directive %+v", d)
			}
		}
		for n := range 8 {
			if d := pick(script, n); d != (directive{}) && !slices.Contains(script, d) {
				t.Fatalf("call %d gets %+v", n, d)
			}
		}
		if got := summarize(content, rest); got != Summary(content) || utf8.RuneCountInString(got) > len("Summary:  (01234567)")+60 {
			t.Fatalf("answer %q", got)
		}
	})
}
