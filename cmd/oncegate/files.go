package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// eventFile is one event to work on.
type eventFile struct {
	name string // as the user named it, or found under a folder the user named
	raw  []byte
}

// maxFile bounds what is read of one file, in bytes.
const maxFile = 16 << 20

// readEvents reads files and the .json files of folders, folders in name order.
// "-" is standard input.
func readEvents(args []string, in io.Reader) ([]eventFile, error) {
	var found []eventFile
	for _, arg := range args {
		if arg == "-" {
			raw, err := io.ReadAll(io.LimitReader(in, maxFile))
			if err != nil {
				return nil, fmt.Errorf("read standard input: %w", err)
			}
			found = append(found, eventFile{"-", raw})
			continue
		}
		info, err := os.Stat(arg)
		if err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		names := []string{arg}
		if info.IsDir() {
			if names, err = jsonFiles(arg); err != nil {
				return nil, err
			}
		}
		for _, name := range names {
			raw, err := os.ReadFile(name)
			if err != nil {
				return nil, fmt.Errorf("read events: %w", err)
			}
			if len(raw) > maxFile {
				return nil, fmt.Errorf("read events: %s is larger than %d MiB", name, maxFile>>20)
			}
			found = append(found, eventFile{name, raw})
		}
	}
	return found, nil
}

func jsonFiles(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".json") {
			names = append(names, filepath.Join(folder, e.Name()))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("read events: folder %s holds no .json file", folder)
	}
	slices.Sort(names)
	return names, nil
}
