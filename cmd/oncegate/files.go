package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/messages"
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
			return nil, messages.Errorf("read events: %w", err)
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
				return nil, messages.Errorf("read events: %w", err)
			}
			if len(raw) > maxFile {
				return nil, messages.Errorf("read events: %s is larger than %d MiB", name, maxFile>>20)
			}
			found = append(found, eventFile{name, raw})
		}
	}
	return found, nil
}

// objectsFolder lies in a folder of events: its files are content that events
// refer to.
const objectsFolder = "objects"

// objectFile is content to put into the local bucket.
type objectFile struct {
	key  string // path below the objects folder, with slashes
	path string
}

// findObjects finds the content beside the events of each folder.
func findObjects(args []string) ([]objectFile, error) {
	var found []objectFile
	for _, arg := range args {
		root := filepath.Join(arg, objectsFolder)
		if info, err := os.Stat(root); err != nil || !info.IsDir() {
			continue
		}
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			key, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			found = append(found, objectFile{filepath.ToSlash(key), path})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read objects: %w", err)
		}
	}
	return found, nil
}

func jsonFiles(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, messages.Errorf("read events: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".json") {
			names = append(names, filepath.Join(folder, e.Name()))
		}
	}
	if len(names) == 0 {
		return nil, messages.Errorf("read events: folder %s holds no .json file", folder)
	}
	slices.Sort(names)
	return names, nil
}
