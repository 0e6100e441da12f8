package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// row is one thing that was measured. Target and Met stand where it has a bound.
type row struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Target *string `json:"target,omitempty"`
	Met    *bool   `json:"met,omitempty"`
}

// parse reads the results in the output of go test -bench: a name with the number
// of cores behind it, a count, then pairs of a value and its unit.
func parse(r io.Reader) []row {
	rows := []row{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		rows = append(rows, measured(nameOf(fields[0]), fields[2:])...)
	}
	return rows
}

func nameOf(field string) string {
	name := strings.TrimPrefix(field, "Benchmark")
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		if _, err := strconv.Atoi(name[i+1:]); err == nil {
			name = name[:i]
		}
	}
	return name
}

// measured turns pairs of value and unit into rows; a bound joins what it bounds.
func measured(name string, pairs []string) []row {
	values, order := map[string]float64{}, []string(nil)
	for i := 0; i+1 < len(pairs); i += 2 {
		v, err := strconv.ParseFloat(pairs[i], 64)
		if err != nil {
			return nil
		}
		values[pairs[i+1]] = v
		order = append(order, pairs[i+1])
	}
	var rows []row
	for _, unit := range order {
		if strings.HasPrefix(unit, "max-") || strings.HasPrefix(unit, "min-") || unit == "ns/op" && values[unit] == 0 {
			continue
		}
		r := row{Name: name, Value: values[unit], Unit: unit}
		if most, ok := values["max-"+unit]; ok {
			r.bound("<=", most, r.Value <= most)
		} else if least, ok := values["min-"+unit]; ok {
			r.bound(">=", least, r.Value >= least)
		}
		rows = append(rows, r)
	}
	return rows
}

func (r *row) bound(relation string, limit float64, met bool) {
	target := fmt.Sprintf("%s %g", relation, limit)
	r.Target, r.Met = &target, &met
}
