//go:build unix

package privatedir

import (
	"io/fs"
	"os"
	"syscall"
)

// enforcesModes is true if the system enforces permission bits.
const enforcesModes = true

// ownedByUser reports whether a file belongs to the user that this process runs as, or to root.
func ownedByUser(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(s.Uid) == os.Geteuid() || s.Uid == 0)
}
