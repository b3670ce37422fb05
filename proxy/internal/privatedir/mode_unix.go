//go:build unix

package privatedir

import (
	"io/fs"
	"os"
	"syscall"
)

// enforcesModes says that the permission bits of a directory mean what they say.
const enforcesModes = true

// ownedByUser reports whether a file belongs to the user that this process runs as, or to root.
func ownedByUser(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(s.Uid) == os.Geteuid() || s.Uid == 0)
}
