package modeltest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	opening = "[[model"
	closing = "]]"
)

// directive is one scripted answer.
type directive struct {
	act        act
	status     int    // of actStatus
	code       string // of actStatus and actError200
	retryAfter string // of actStatus; seconds
	finish     string // of actFinish
	delay      time.Duration
	times      int // negative: for ever
}

type act int

const (
	actAnswer act = iota // normal answer: a directive that only delays
	actStatus
	actFinish
	actCut
	actGarbage
	actEmpty
	actError200
	actNoChoices
)

// parseDirectives takes the directives out of a content and returns them in
// order, with the text that is left.
func parseDirectives(content string) (script []directive, rest string, err error) {
	var text strings.Builder
	for {
		i := strings.Index(content, opening)
		if i < 0 {
			text.WriteString(content)
			return script, text.String(), nil
		}
		text.WriteString(content[:i])
		body := content[i+len(opening):]
		if body != "" && !strings.HasPrefix(body, closing) && !strings.ContainsRune(" \t\r\n", rune(body[0])) {
			// [[modelling]] and the like is the author's own text.
			text.WriteString(opening)
			content = body
			continue
		}
		end := strings.Index(body, closing)
		if end < 0 {
			return nil, "", fmt.Errorf("directive %d has no %s", len(script)+1, closing)
		}
		d, err := parseDirective(strings.Fields(body[:end]))
		if err != nil {
			return nil, "", fmt.Errorf("directive %d: %w", len(script)+1, err)
		}
		script = append(script, d)
		content = body[end+len(closing):]
	}
}

func parseDirective(words []string) (directive, error) {
	d := directive{times: 1}
	seen := map[string]bool{}
	for _, word := range words {
		key, value, valued := strings.Cut(word, "=")
		if seen[key] {
			return d, fmt.Errorf("%q is there twice", key)
		}
		seen[key] = true
		if err := d.set(key, value, valued); err != nil {
			return d, err
		}
	}
	switch {
	case d.act == actAnswer && !seen["delay"]:
		return d, fmt.Errorf("says nothing to do")
	case seen["retry_after"] && d.act != actStatus:
		return d, fmt.Errorf("retry_after without status")
	case seen["code"] && d.act != actStatus && d.act != actError200:
		return d, fmt.Errorf("code without status or error200")
	}
	return d, nil
}

func (d *directive) set(key, value string, valued bool) error {
	acts := map[string]act{
		"status": actStatus, "finish": actFinish, "cut": actCut, "garbage": actGarbage,
		"empty": actEmpty, "error200": actError200, "nochoices": actNoChoices,
	}
	if a, ok := acts[key]; ok {
		if d.act != actAnswer {
			return fmt.Errorf("%q after another answer", key)
		}
		d.act = a
	}
	bad := fmt.Errorf("%q has no value of its kind", key)
	switch key {
	case "cut", "garbage", "empty", "error200", "nochoices":
		if valued {
			return fmt.Errorf("%q takes no value", key)
		}
	case "status":
		n, err := strconv.Atoi(value)
		if err != nil || n < 400 || n > 599 {
			return bad
		}
		d.status = n
	case "finish":
		switch value {
		case "stop", "length", "content_filter":
		default:
			return bad
		}
		d.finish = value
	case "code":
		if value == "" {
			return bad
		}
		d.code = value
	case "retry_after":
		if n, err := strconv.Atoi(value); err != nil || n < 0 {
			return bad
		}
		d.retryAfter = value
	case "delay":
		wait, err := time.ParseDuration(value)
		if err != nil || wait < 0 {
			return bad
		}
		d.delay = wait
	case "times":
		n, err := strconv.Atoi(value)
		if err != nil || n == 0 || n < -1 {
			return bad
		}
		d.times = n
	default:
		return fmt.Errorf("unknown word %q", key)
	}
	return nil
}

// pick returns the directive of the call after n earlier ones, or the normal
// answer once the script is used up.
func pick(script []directive, n int) directive {
	for _, d := range script {
		if d.times < 0 || n < d.times {
			return d
		}
		n -= d.times
	}
	return directive{}
}
