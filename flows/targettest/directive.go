package targettest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	opening = "[[target"
	closing = "]]"
)

// directive is what a script has for a call; the zero value is the normal way.
type directive struct {
	status     int    // not 0: an error of it and no effect
	code       string // of status
	retryAfter string // of status; seconds
	cut        bool
	cutAfter   bool
	delay      time.Duration
	delayAfter time.Duration
	times      int // negative: for ever
}

// parseDirectives returns the directives in the texts, in order. No directive
// reaches from one text into the next.
func parseDirectives(texts []string) ([]directive, error) {
	var script []directive
	for _, text := range texts {
		for {
			i := strings.Index(text, opening)
			if i < 0 {
				break
			}
			text = text[i+len(opening):]
			if text != "" && !strings.HasPrefix(text, closing) && !strings.ContainsRune(" \t\r\n", rune(text[0])) {
				continue // [[targeted]] and the like is the author's own text
			}
			body, rest, closed := strings.Cut(text, closing)
			if !closed {
				return nil, fmt.Errorf("directive %d has no %s", len(script)+1, closing)
			}
			d, err := parseDirective(strings.Fields(body))
			if err != nil {
				return nil, fmt.Errorf("directive %d: %w", len(script)+1, err)
			}
			script, text = append(script, d), rest
		}
	}
	return script, nil
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
	ends := 0
	for _, word := range []string{"status", "cut", "cut_after"} {
		if seen[word] {
			ends++
		}
	}
	switch {
	case ends == 0 && !seen["delay"] && !seen["delay_after"]:
		return d, errors.New("says nothing to do")
	case ends > 1:
		return d, errors.New("has more than one of status, cut and cut_after")
	case seen["delay_after"] && (seen["status"] || seen["cut"]):
		return d, errors.New("delay_after without an effect")
	case (seen["code"] || seen["retry_after"]) && !seen["status"]:
		return d, errors.New("code or retry_after without status")
	}
	return d, nil
}

func (d *directive) set(key, value string, valued bool) error {
	ok := true
	switch key {
	case "cut":
		d.cut, ok = true, !valued
	case "cut_after":
		d.cutAfter, ok = true, !valued
	case "status":
		d.status, ok = number(value, 400, 599)
	case "code":
		d.code, ok = value, value != ""
	case "retry_after":
		_, ok = number(value, 0, 1<<31-1)
		d.retryAfter = value
	case "delay":
		d.delay, ok = duration(value)
	case "delay_after":
		d.delayAfter, ok = duration(value)
	case "times":
		d.times, ok = number(value, -1, 1<<31-1)
		ok = ok && d.times != 0
	default:
		return fmt.Errorf("unknown word %q", key)
	}
	if !ok {
		return fmt.Errorf("%q has no value of its kind", key)
	}
	return nil
}

func number(text string, least, most int) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= least && n <= most
}

func duration(text string) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}

// pick returns the directive of the call after n earlier ones, or the normal
// way once the script is used up.
func pick(script []directive, n int) directive {
	for _, d := range script {
		if d.times < 0 || n < d.times {
			return d
		}
		n -= d.times
	}
	return directive{}
}
