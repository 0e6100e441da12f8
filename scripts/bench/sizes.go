package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// shares says how much of a command's code and data each module has, from the
// symbols of a binary that still has them, the largest first.
func shares(pkg string) ([]row, error) {
	dir, err := os.MkdirTemp("", "oncegate-sizes-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "binary")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", binary, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	deps, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}", pkg).Output()
	if err != nil {
		return nil, fmt.Errorf("list what %s needs: %w", pkg, err)
	}
	symbols, err := exec.Command("go", "tool", "nm", "-size", binary).Output()
	if err != nil {
		return nil, fmt.Errorf("list symbols: %w", err)
	}
	info, err := os.Stat(binary)
	if err != nil {
		return nil, err
	}
	return sum(symbols, deps, int(info.Size())), nil
}

// sum adds the sizes of symbols up by module. One that is larger than the file is
// memory that the file does not hold.
func sum(symbols, deps []byte, file int) []row {
	moduleOf := map[string]string{}
	for line := range strings.Lines(string(deps)) {
		if fields := strings.Fields(line); len(fields) == 2 {
			moduleOf[fields[0]] = fields[1]
		}
	}
	sizes := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(symbols))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || strings.EqualFold(fields[2], "b") { // what is zero takes no room in the file
			continue
		}
		n, err := strconv.Atoi(fields[1])
		if err != nil || n > file {
			continue
		}
		sizes[module(fields[3], moduleOf)] += n
	}
	var rows []row
	for name, n := range sizes {
		if n >= 10<<10 {
			rows = append(rows, row{Name: "size of " + name, Value: float64(n) / (1 << 20), Unit: "MiB"})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return int((b.Value - a.Value) * (1 << 20)) })
	return rows
}

// module is the module that a symbol belongs to.
func module(symbol string, moduleOf map[string]string) string {
	symbol = strings.NewReplacer("%2e", ".", "type:.eq.", "", "go:itab.", "", "*", "").Replace(symbol)
	if i := strings.IndexAny(symbol, "[("); i > 0 {
		symbol = symbol[:i]
	}
	slash := strings.LastIndexByte(symbol, '/') + 1
	dot := strings.IndexByte(symbol[slash:], '.')
	if dot < 0 {
		return "the Go runtime's tables"
	}
	pkg := symbol[:slash+dot]
	if m, ok := moduleOf[pkg]; ok {
		return m
	}
	// gopkg.in/x.v1 and the like have a dot in their last part.
	if next := strings.IndexByte(symbol[slash+dot+1:], '.'); next >= 0 {
		if m, ok := moduleOf[symbol[:slash+dot+1+next]]; ok {
			return m
		}
	}
	if strings.HasPrefix(pkg, "type:") || strings.HasPrefix(pkg, "go:") {
		return "the Go runtime's tables"
	}
	return "the standard library"
}
