package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/plugin/fuel"
)

// diskCache keeps rewritten modules and their machine code between starts: a directory for each module, named by the
// module's key, with the file "module" and whatever wazero writes beside it.
//
// Machine code is run as it is read, so nothing in the cache is trusted: the file "module" begins with a digest of the
// rest of it, and names all other files of the directory with theirs. A directory that does not match to the byte is
// removed and made anew. Directories appear whole, by a rename, so processes can share the cache.
//
// The digests find what a disk or a crash did. Against a person there is only the rule that nobody else can write here.
type diskCache struct {
	dir   string
	limit int64
}

const (
	defaultCacheBytes = 512 << 20
	entryFile         = "module"
	unfinished        = "new-" // prefix of directories that are being written
	unfinishedAge     = time.Hour
)

// entryMagic begins the file "module", in this version of its format.
var entryMagic = []byte("sluice module 1\n")

// openDiskCache makes the directory if it must, and makes sure that it is private.
func openDiskCache(dir string, limit int64) (*diskCache, error) {
	if limit == 0 {
		limit = defaultCacheBytes
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := checkPrivate(dir); err != nil {
		return nil, err
	}
	c := &diskCache{dir: dir, limit: limit}
	c.sweep()
	return c, nil
}

// checkPrivate refuses a directory that another user owns or can write.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case info.Mode().Perm()&0o022 != 0 && enforcesModes:
		return fmt.Errorf("%s can be written by others (mode %04o, want 0700)", dir, info.Mode().Perm())
	case !ownedByUser(info):
		return fmt.Errorf("%s belongs to another user", dir)
	}
	return nil
}

func (c *diskCache) path(key digest) string {
	return filepath.Join(c.dir, hex.EncodeToString(key[:]))
}

// open returns the directory of a module and its entry, verified. What does not verify is removed.
func (c *diskCache) open(key digest) (dir string, e *entry, ok bool) {
	dir = c.path(key)
	e, err := readEntry(dir)
	if errors.Is(err, fs.ErrNotExist) && !exists(dir) {
		return "", nil, false
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, false
	}
	// The time of the file is when the module was used last. Without it the module is only swept earlier.
	now := time.Now()
	_ = os.Chtimes(filepath.Join(dir, entryFile), now, now)
	return dir, e, true
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// begin returns a new directory to compile into. It ends with publish or abandon.
func (c *diskCache) begin() (string, error) {
	return os.MkdirTemp(c.dir, unfinished)
}

func (c *diskCache) abandon(dir string) { _ = os.RemoveAll(dir) }

// publish writes the file "module" into the directory and gives it its name. Another process may have been faster: then
// its directory stays.
func (c *diskCache) publish(dir string, key digest, e *entry) error {
	defer c.abandon(dir)
	if err := writeEntry(dir, e); err != nil {
		return err
	}
	if err := os.Rename(dir, c.path(key)); err != nil && !exists(c.path(key)) {
		return err
	}
	c.sweep()
	return nil
}

// digestFiles lists the files below dir other than the entry, each as "size digest path", sorted by path.
func digestFiles(dir string) (string, error) {
	var lines []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == entryFile {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a plain file", name)
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		n, err := io.Copy(h, f)
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%s %d %x\n", filepath.ToSlash(name), n, h.Sum(nil)))
		return nil
	})
	slices.Sort(lines)
	return strings.Join(lines, ""), err
}

// entry is what the file "module" keeps: what package fuel made of a module.
type entry struct {
	info      fuel.Info
	rewritten []byte
}

// entryHeader lies before the rewritten bytes, as JSON. The file begins with entryMagic, the digest of all that follows,
// and the header's size in four bytes, little end first.
type entryHeader struct {
	Info  fuel.Info
	Files string // as digestFiles lists them
}

var (
	errEntry      = errors.New("damaged")
	errOtherFiles = errors.New("files beside the module differ")
)

func writeEntry(dir string, e *entry) error {
	files, err := digestFiles(dir)
	if err != nil {
		return err
	}
	header, err := json.Marshal(entryHeader{Info: e.info, Files: files})
	if err != nil {
		return err
	}
	size := binary.LittleEndian.AppendUint32(nil, uint32(len(header)))
	rest := slices.Concat(size, header, e.rewritten)
	sum := sha256.Sum256(rest)
	return os.WriteFile(filepath.Join(dir, entryFile), slices.Concat(entryMagic, sum[:], rest), 0o600)
}

func readEntry(dir string) (*entry, error) {
	if err := checkPrivate(dir); err != nil {
		return nil, err
	}
	p, err := os.ReadFile(filepath.Join(dir, entryFile))
	if err != nil {
		return nil, err
	}
	p, ok := bytes.CutPrefix(p, entryMagic)
	if !ok || len(p) < sha256.Size+4 {
		return nil, errEntry
	}
	sum, rest := p[:sha256.Size], p[sha256.Size:]
	if have := sha256.Sum256(rest); !bytes.Equal(have[:], sum) {
		return nil, errEntry
	}
	size := binary.LittleEndian.Uint32(rest)
	rest = rest[4:]
	if uint64(size) > uint64(len(rest)) {
		return nil, errEntry
	}
	var header entryHeader
	if err := json.Unmarshal(rest[:size], &header); err != nil {
		return nil, fmt.Errorf("%w: %w", errEntry, err)
	}
	files, err := digestFiles(dir)
	if err != nil {
		return nil, err
	}
	if files != header.Files {
		return nil, errOtherFiles
	}
	return &entry{info: header.Info, rewritten: rest[size:]}, nil
}

// sweep removes what was left unfinished long ago, and the modules that were not used for the longest time until the
// rest is within the limit. It is best effort: a cache that cannot be tidied still works.
func (c *diskCache) sweep() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	type used struct {
		path string
		at   time.Time
		size int64
	}
	var modules []used
	var total int64
	for _, d := range entries {
		path := filepath.Join(c.dir, d.Name())
		info, err := d.Info()
		if err != nil || !d.IsDir() {
			continue
		}
		if strings.HasPrefix(d.Name(), unfinished) {
			if time.Since(info.ModTime()) > unfinishedAge {
				_ = os.RemoveAll(path)
			}
			continue
		}
		if len(d.Name()) != hex.EncodedLen(len(digest{})) {
			continue
		}
		u := used{path: path, at: info.ModTime(), size: treeSize(path)}
		if info, err := os.Stat(filepath.Join(path, entryFile)); err == nil {
			u.at = info.ModTime()
		}
		modules = append(modules, u)
		total += u.size
	}
	slices.SortFunc(modules, func(a, b used) int { return a.at.Compare(b.at) })
	for _, u := range modules {
		if total <= c.limit {
			return
		}
		if os.RemoveAll(u.path) == nil {
			total -= u.size
		}
	}
}

// treeSize is the size of all files below dir.
func treeSize(dir string) int64 {
	var total int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	return total
}
