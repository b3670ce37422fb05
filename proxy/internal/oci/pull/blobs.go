package pull

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/oci"
)

const (
	maxBlobs      = 1 << 30 // bytes in the folder
	unfinished    = "new-"  // prefix of files that are being written
	unfinishedAge = time.Hour
)

// blobs is a folder of blobs, each in a file that is named by its digest. The zero value is always empty.
type blobs struct {
	dir   string
	limit int64
}

func newBlobs(cache string) blobs {
	if cache == "" {
		return blobs{}
	}
	return blobs{filepath.Join(cache, "blobs", "sha256"), maxBlobs}
}

var errNotStored = errors.New("not stored")

// read returns a blob. One that does not have its digest is removed.
func (b blobs) read(digest oci.Digest) ([]byte, error) {
	if b.dir == "" {
		return nil, errNotStored
	}
	path := filepath.Join(b.dir, digest.Hex())
	f, err := os.Open(path)
	if err != nil {
		return nil, errNotStored
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, max(oci.MaxManifest, oci.MaxModule)+1))
	if err == nil {
		err = digest.Check(content)
	}
	if err != nil {
		_ = os.Remove(path)
		return nil, err
	}
	// The modification time records the last use. If setting it fails, sweep only removes the blob earlier.
	now := time.Now()
	_ = os.Chtimes(path, now, now)
	return content, nil
}

// write stores a blob. Its file appears complete or not at all; after a crash of the machine, read finds out.
func (b blobs) write(digest oci.Digest, content []byte) error {
	if b.dir == "" {
		return nil
	}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(b.dir, unfinished)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(b.dir, digest.Hex()))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	b.sweep()
	return nil
}

// sweep removes old unfinished files, and the least recently used blobs until the rest is within the limit. It ignores
// errors: a folder that cannot be cleaned up still works.
func (b blobs) sweep() {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return
	}
	type blob struct {
		path string
		size int64
		used time.Time
	}
	var all []blob
	var total int64
	for _, e := range entries {
		path := filepath.Join(b.dir, e.Name())
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
		case strings.HasPrefix(e.Name(), unfinished):
			if time.Since(info.ModTime()) > unfinishedAge {
				_ = os.Remove(path)
			}
		default:
			all = append(all, blob{path, info.Size(), info.ModTime()})
			total += info.Size()
		}
	}
	slices.SortFunc(all, func(a, b blob) int { return a.used.Compare(b.used) })
	for _, blob := range all {
		if total <= b.limit {
			return
		}
		if os.Remove(blob.path) == nil {
			total -= blob.size
		}
	}
}
