//go:build !linux

package journal

import (
	"errors"
	"os"
)

func allocateBlocks(*os.File, int64) error { return errors.ErrUnsupported }
