//go:build !unix

package privatedir

import "io/fs"

// enforcesModes is false because access is governed by access control lists, which Go does not expose. The operator is
// trusted to choose a private directory.
const enforcesModes = false

// ownedByUser is not used on this system.
func ownedByUser(fs.FileInfo) bool { return true }
