package ebtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// compileTest reads one member of a pattern's list: a scalar that must be
// equal, or an object with one operator.
func compileTest(v any) (test, error) {
	switch v := v.(type) {
	case []any:
		return nil, errors.New("list inside a list")
	case map[string]any:
		if len(v) != 1 {
			return nil, errors.New("want one operator an object")
		}
		for op, arg := range v {
			t, err := compileOperator(op, arg)
			if err != nil {
				return nil, fmt.Errorf("operator %s: %w", op, err)
			}
			return t, nil
		}
	}
	return onValue(func(got any) bool { return got == v }), nil
}

func compileOperator(op string, arg any) (test, error) {
	switch op {
	case "prefix", "suffix", "contains":
		return compileText(op, arg)
	case "exists":
		want, ok := arg.(bool)
		if !ok {
			return nil, errors.New("want true or false")
		}
		return func(_ any, present bool) bool { return present == want }, nil
	case "anything-but":
		return compileAnythingBut(arg)
	case "numeric":
		return compileNumeric(arg)
	case "cidr":
		s, _ := arg.(string)
		network, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, err
		}
		return onText(func(got string) bool {
			addr, err := netip.ParseAddr(got)
			return err == nil && network.Contains(addr)
		}), nil
	}
	return nil, errors.New("not known")
}

func compileText(op string, arg any) (test, error) {
	want, ok := arg.(string)
	if !ok {
		return nil, errors.New("want a string")
	}
	holds := strings.HasPrefix
	switch op {
	case "suffix":
		holds = strings.HasSuffix
	case "contains":
		holds = strings.Contains
	}
	return onText(func(got string) bool { return holds(got, want) }), nil
}

// compileAnythingBut reads a value, a list of values, or {"prefix": text}.
func compileAnythingBut(arg any) (test, error) {
	not := []any{arg}
	switch arg := arg.(type) {
	case map[string]any:
		prefix, ok := arg["prefix"].(string)
		if !ok || len(arg) != 1 {
			return nil, errors.New("want a value, a list or a prefix")
		}
		return onValue(func(got any) bool {
			s, ok := got.(string)
			return !ok || !strings.HasPrefix(s, prefix)
		}), nil
	case []any:
		not = arg
	}
	if len(not) == 0 || slices.ContainsFunc(not, compound) {
		return nil, errors.New("want a value, a list or a prefix")
	}
	return onValue(func(got any) bool { return !compound(got) && !slices.Contains(not, got) }), nil
}

// compileNumeric reads pairs of a comparison and a number that must all hold.
func compileNumeric(arg any) (test, error) {
	list, _ := arg.([]any)
	if len(list) == 0 || len(list)%2 != 0 {
		return nil, errors.New("want pairs of comparison and number")
	}
	var all []func(float64) bool
	for pair := range slices.Chunk(list, 2) {
		op, _ := pair[0].(string)
		n, _ := pair[1].(json.Number)
		want, err := n.Float64()
		if err != nil {
			return nil, errors.New("want pairs of comparison and number")
		}
		var holds func(float64) bool
		switch op {
		case "=":
			holds = func(got float64) bool { return got == want }
		case "<":
			holds = func(got float64) bool { return got < want }
		case "<=":
			holds = func(got float64) bool { return got <= want }
		case ">":
			holds = func(got float64) bool { return got > want }
		case ">=":
			holds = func(got float64) bool { return got >= want }
		default:
			return nil, fmt.Errorf("unknown comparison %q", op)
		}
		all = append(all, holds)
	}
	return onValue(func(v any) bool {
		n, ok := v.(json.Number)
		if !ok {
			return false
		}
		got, err := n.Float64()
		return err == nil && !slices.ContainsFunc(all, func(holds func(float64) bool) bool { return !holds(got) })
	}), nil
}

// onValue applies a test to a present value, or to the members of a list, of
// which one must match. Objects are compared with nothing.
func onValue(holds func(any) bool) test {
	return func(v any, present bool) bool {
		if list, ok := v.([]any); ok {
			return slices.ContainsFunc(list, func(one any) bool { return !compound(one) && holds(one) })
		}
		return present && !compound(v) && holds(v)
	}
}

func onText(holds func(string) bool) test {
	return onValue(func(v any) bool {
		s, ok := v.(string)
		return ok && holds(s)
	})
}

// compound reports what == must not see: maps and slices do not compare.
func compound(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}
