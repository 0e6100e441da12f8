package main

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// footprint is what processes take, as the machine sees it.
type footprint struct {
	files       int // descriptors of the process that has most
	rss         int // bytes of the process that has most
	connections map[string]int
}

func (f footprint) String() string {
	c := f.connections
	return fmt.Sprintf("at most %d descriptors and %.1f MiB a process; connections: tablestore %d, oss %d, model %d, target %d",
		f.files, float64(f.rss)/(1<<20), c["tablestore"], c["oss"], c["model"], c["target"])
}

// footprint measures the function's processes now; it is zero where the machine
// has no /proc.
func (w *world) footprint() footprint {
	f := footprint{connections: map[string]int{}}
	for _, in := range w.fn.Stats().Instances {
		dir := fmt.Sprintf("/proc/%d/", in.PID)
		if open, err := os.ReadDir(dir + "fd"); err == nil {
			f.files = max(f.files, len(open))
		}
		if raw, err := os.ReadFile(dir + "statm"); err == nil {
			if fields := strings.Fields(string(raw)); len(fields) > 1 {
				pages, _ := strconv.Atoi(fields[1])
				f.rss = max(f.rss, pages*os.Getpagesize())
			}
		}
	}
	raw, _ := os.ReadFile("/proc/self/net/tcp")
	for service, endpoint := range map[string]string{
		"tablestore": w.tables.Endpoint(), "oss": w.objects.Endpoint(), "model": w.model.Endpoint(), "target": w.targets.Endpoint(),
	} {
		f.connections[service] = connectionsTo(string(raw), endpoint)
	}
	return f
}

// connectionsTo counts the open connections at a stand-in's end.
func connectionsTo(table, endpoint string) (n int) {
	const established = "01"
	u, err := url.Parse(endpoint)
	if err != nil {
		return 0
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return 0
	}
	local := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 3 && strings.HasSuffix(fields[1], local) && fields[3] == established {
			n++
		}
	}
	return n
}

// most is the most of each in some footprints.
func most(all []footprint) footprint {
	m := footprint{connections: map[string]int{}}
	for _, f := range all {
		m.files, m.rss = max(m.files, f.files), max(m.rss, f.rss)
		for service, n := range f.connections {
			m.connections[service] = max(m.connections[service], n)
		}
	}
	return m
}
