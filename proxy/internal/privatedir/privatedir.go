// Package privatedir tells whether other users could replace what is in a directory, for those who trust what they find there.
//
// It does not make directories, and decides nothing about links: the caller says what it looks at.
package privatedir

import (
	"errors"
	"fmt"
	"io/fs"
)

// ErrWritable is for a directory that other users can write.
var ErrWritable = errors.New("is writable by other users")

// Check returns what is wrong with a directory, as the end of a sentence that begins with its name; nil if only this user and root can
// change it.
func Check(info fs.FileInfo) error {
	switch {
	case !info.IsDir():
		return errors.New("is not a directory")
	case !enforcesModes:
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%w (mode %04o, want 0700)", ErrWritable, info.Mode().Perm())
	case !ownedByUser(info):
		return errors.New("belongs to another user")
	}
	return nil
}
