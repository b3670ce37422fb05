// Package privatedir checks that other users cannot replace the files in a directory, for callers that trust these
// files.
//
// It neither creates directories nor follows links: the caller passes the result of os.Stat or os.Lstat.
package privatedir

import (
	"errors"
	"fmt"
	"io/fs"
)

// ErrWritable is the error for a directory that other users can write to.
var ErrWritable = errors.New("is writable by other users")

// Check returns an error unless only this user and root can change the directory. The error's text follows the
// directory's name, as in "/tmp is writable by other users".
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
