package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// units are capacity units written and read, and PUT requests.
type units [3]int

func (u units) add(v units, times int) units {
	for i := range u {
		u[i] += times * v[i]
	}
	return u
}

// priced is what each call costs while its row is below 4 KB. A write on a
// condition reads as well; one whose condition fails costs one unit of each.
var priced = map[string]units{
	"PutRow": {1, 1, 0}, "PutRow (fails)": {1, 1, 0}, "UpdateRow": {1, 1, 0}, "GetRow": {0, 1, 0}, "PutObject": {0, 0, 1},
}

// rowsUnder returns the rows of the Markdown table whose header has a text.
func rowsUnder(t *testing.T, file, header string) [][]string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(raw), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "|") && strings.Contains(l, header) })
	if at < 0 {
		t.Fatalf("%s has no table %q", file, header)
	}
	var rows [][]string
	for _, l := range lines[at+2:] {
		if !strings.HasPrefix(l, "|") {
			break
		}
		rows = append(rows, strings.Split(strings.Trim(l, "|"), "|"))
	}
	return rows
}

// counted reads the last three cells of a row.
func counted(t *testing.T, row []string) units {
	t.Helper()
	var u units
	for i, cell := range row[len(row)-3:] {
		n, err := strconv.Atoi(strings.ReplaceAll(strings.TrimSpace(cell), ",", ""))
		if err != nil {
			t.Fatal(err)
		}
		u[i] = n
	}
	return u
}

// The calls of ARCHITECTURE.md, which a test of package handler holds, make the
// runbooks' units, and those make the numbers for a million businesses.
func TestTheRunbooksCostFollowsFromTheCalls(t *testing.T) {
	root := filepath.Join("..", "..")
	call := regexp.MustCompile(`(?:(\d+) )?(PutRow \(fails\)|PutRow|UpdateRow|GetRow|PutObject)`)
	var want []units
	for _, row := range rowsUnder(t, filepath.Join(root, "ARCHITECTURE.md"), "delivery | Tablestore") {
		var u units
		for _, m := range call.FindAllStringSubmatch(strings.Join(row[1:], ","), -1) {
			times := 1
			if m[1] != "" {
				times, _ = strconv.Atoi(m[1])
			}
			u = u.add(priced[m[2]], times)
		}
		want = append(want, u)
	}
	// "cold" and "in progress" are one row in the runbooks.
	if len(want) != 6 || want[4] != want[5] {
		t.Fatalf("the calls are %v", want)
	}
	const million = 1_000_000
	fresh, effect, again, cold := want[0], want[1], want[3], want[4]
	mixes := []units{
		units{}.add(fresh, million),
		units{}.add(fresh, million).add(effect, million),
		units{}.add(fresh, million).add(effect, million).add(cold, 200_000),
		units{}.add(fresh, million).add(effect, 2*million).add(again, 200_000),
	}
	for i, name := range runbooks {
		file := filepath.Join(root, "docs", name)
		for header, want := range map[string][]units{[]string{"delivery | write CU", "投递 | 写 CU"}[i]: want[:5], "1,000,000": mixes} {
			var got []units
			for _, row := range rowsUnder(t, file, header) {
				got = append(got, counted(t, row))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s says %v under %q, and the calls make %v", name, got, header, want)
			}
		}
	}
}
