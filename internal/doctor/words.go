package doctor

import (
	"cmp"
	"strings"
	"time"
)

// span is a duration for people: 45d, 2m30s.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day && d%day == 0 {
		return strings.TrimSuffix((d/24).String(), "h0m0s") + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func list(names []string) string { return strings.Join(names, ", ") }

// retryOf is a retry strategy as it holds.
func retryOf(t string) string { return cmp.Or(t, backoffRetry) }
