// Command zip packs files into a reproducible zip: same bytes in, same bytes
// out. Function Compute starts the file named main at the root of the package.
//
//	go run ./scripts/zip function.zip target/function/main
package main

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: zip OUT.zip FILE...")
		os.Exit(2)
	}
	if err := pack(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "zip:", err)
		os.Exit(1)
	}
}

func pack(name string, files []string) (err error) {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := out.Close(); err == nil {
			err = closeErr
		}
	}()
	w := zip.NewWriter(out)
	for _, file := range files {
		if err := add(w, file); err != nil {
			return err
		}
	}
	return w.Close()
}

func add(w *zip.Writer, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	h := &zip.FileHeader{Name: filepath.Base(file), Method: zip.Deflate, Modified: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}
	h.SetMode(0o755)
	member, err := w.CreateHeader(h)
	if err != nil {
		return err
	}
	_, err = io.Copy(member, in)
	return err
}
