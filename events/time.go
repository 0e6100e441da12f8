package events

import (
	"strings"
	"time"
)

// parseTime understands RFC 3339 and the spellings that services were seen to
// send: one-digit months, and a zone name in place of an offset.
func parseTime(text string) (time.Time, bool) {
	if text == "" {
		return time.Time{}, false
	}
	const layout = "2006-1-2T15:4:5.999999999"
	if t, err := time.Parse(layout+"Z07:00", text); err == nil {
		return t.UTC(), true
	}
	i := strings.IndexFunc(text, func(r rune) bool {
		return r >= 'A' && r <= 'Z' && r != 'T'
	})
	if i <= 0 {
		return time.Time{}, false
	}
	zone, err := time.LoadLocation(text[i:])
	if err != nil {
		return time.Time{}, false
	}
	t, err := time.ParseInLocation(layout, text[:i], zone)
	return t.UTC(), err == nil
}
