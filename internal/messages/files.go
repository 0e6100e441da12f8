package messages

import (
	"errors"
	"io/fs"
)

// file is what the system says about a file; ok is false for anything else.
func file(err error) (t Text, ok bool) {
	path, ok := err.(*fs.PathError)
	switch {
	case !ok:
	case errors.Is(path, fs.ErrNotExist):
		return T("there is no file or folder %s", path.Path), true
	case errors.Is(path, fs.ErrExist):
		return T("%s is there already", path.Path), true
	case errors.Is(path, fs.ErrPermission):
		return T("the rights on %s do not allow it", path.Path), true
	}
	return Text{}, false
}
