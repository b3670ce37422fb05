package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	"github.com/sluice-gateway/sluice/proxy/internal/privatedir"
)

// diskCache keeps rewritten modules and their machine code between starts: a directory for each module, named by the
// module's key, with the file "module" and whatever wazero writes beside it.
//
// Machine code is executed as it was read, so nothing in the cache is trusted: the file "module" begins with a digest of the
// rest of it, and names all other files of the directory with their checksums. A directory that does not match is removed
// and rebuilt. Directories appear whole, by a rename, so processes can share the cache.
//
// Digests and checksums detect what a disk or a crash did. The protection from other users is that they cannot write
// here. A directory of root is as good as the user's own: that is how an image brings compiled plugins.
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
var entryMagic = []byte("sluice module 6\n")

// openDiskCache creates the directory if it is missing, and checks that it is private.
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
	if err := privatedir.Check(info); err != nil {
		return fmt.Errorf("%s %w", dir, err)
	}
	return nil
}

func (c *diskCache) path(key digest) string {
	return filepath.Join(c.dir, hex.EncodeToString(key[:]))
}

// open returns the directory of a module and its verified entry. A directory that fails verification is removed.
func (c *diskCache) open(key digest) (dir string, e *entry, miss error) {
	dir = c.path(key)
	// Looked for first: a directory that appears after this, whole, is another process's and must not be taken for a
	// damaged one because its entry could not be read a moment before.
	if !exists(dir) {
		return "", nil, errNotCached
	}
	e, err := readEntry(dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, fmt.Errorf("unusable cache entry: %w", err)
	}
	// The time of the file is when the module was used last. Without it the module is only swept earlier.
	now := time.Now()
	_ = os.Chtimes(filepath.Join(dir, entryFile), now, now)
	return dir, e, nil
}

// explainMiss says why a module that has no entry of its key has to be compiled: it may have one that was compiled for
// another processor.
func (c *diskCache) explainMiss(source digest) error {
	dirs, err := os.ReadDir(c.dir)
	if err != nil {
		return errNotCached
	}
	for _, d := range dirs {
		if len(d.Name()) != hex.EncodedLen(len(digest{})) {
			continue
		}
		header, _, err := readHeader(filepath.Join(c.dir, d.Name(), entryFile))
		if err == nil && header.Source == hex.EncodeToString(source[:]) && header.Processor != processor() {
			return fmt.Errorf("the cached code is for %s, this machine is %s", header.Processor, processor())
		}
	}
	return errNotCached
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

// files lists the files below dir other than the entry, sorted.
func files(dir string) (paths []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == filepath.Join(dir, entryFile) {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", path)
		}
		paths = append(paths, path)
		return nil
	})
	slices.Sort(paths)
	return paths, err
}

// castagnoli is the polynomial that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumFiles lists the files below dir other than the entry, each as "path size checksum". Machine code is large, and a
// SHA-256 of it took a quarter of a start; wazero has a checksum of its own over most of it, too.
func sumFiles(dir string) (string, error) {
	paths, err := files(dir)
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	buffer := make([]byte, 256<<10)
	for _, path := range paths {
		n, sum, err := sumFile(path, buffer)
		if err != nil {
			return "", err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&lines, "%s %d %08x\n", filepath.ToSlash(name), n, sum)
	}
	return lines.String(), nil
}

func sumFile(path string, buffer []byte) (n int64, sum uint32, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	for {
		k, err := f.Read(buffer)
		n += int64(k)
		sum = crc32.Update(sum, castagnoli, buffer[:k])
		if err == io.EOF {
			return n, sum, nil
		}
		if err != nil {
			return 0, 0, err
		}
	}
}

// entry is the content of the file "module": the metered module without its code and data, its declarations, its data, and the
// names of its functions.
type entry struct {
	source digest // of the module as it was given
	info   fuel.Info
	stub   []byte
	data   []byte // the content of its data section; empty if the stub module has it
	names  names

	stats map[string]fs.FileInfo // of the files beside it, when it was read
}

// untouched reports whether the files beside the entry are those that were there when it was read. wazero replaces a file
// that it rejects, and adds one if it does not find its own.
func (e *entry) untouched(dir string) bool {
	now, err := stats(dir)
	if err != nil || len(now) != len(e.stats) {
		return false
	}
	for path, before := range e.stats {
		after := now[path]
		if after == nil || !os.SameFile(before, after) || before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()) {
			return false
		}
	}
	return true
}

func stats(dir string) (map[string]fs.FileInfo, error) {
	paths, err := files(dir)
	if err != nil {
		return nil, err
	}
	m := make(map[string]fs.FileInfo, len(paths))
	for _, path := range paths {
		if m[path], err = os.Lstat(path); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// entryHeader lies before the stub module, as JSON. The file begins with entryMagic, the digest of all that follows,
// and the header's size in four bytes, little end first.
type entryHeader struct {
	Source    string // digest of the module as it was given, in hexadecimal
	Processor string // what the machine code was compiled for
	Info      fuel.Info
	Files     string // as sumFiles lists them
	Data      int    // bytes after the stub module
	Names     int    // bytes after the data
}

// Reasons for compiling a module.
var (
	errNoCache    = errors.New("no cache directory")
	errNotCached  = errors.New("not in the cache")
	errRejected   = errors.New("cached code rejected by the runtime")
	errEntry      = errors.New("damaged")
	errOtherFiles = errors.New("files beside the module differ")
)

func writeEntry(dir string, e *entry) error {
	sums, err := sumFiles(dir)
	if err != nil {
		return err
	}
	header, err := json.Marshal(entryHeader{Source: hex.EncodeToString(e.source[:]), Processor: processor(), Info: e.info, Files: sums, Data: len(e.data), Names: len(e.names)})
	if err != nil {
		return err
	}
	size := binary.LittleEndian.AppendUint32(nil, uint32(len(header)))
	rest := slices.Concat(size, header, e.stub, e.data, e.names)
	sum := sha256.Sum256(rest)
	return os.WriteFile(filepath.Join(dir, entryFile), slices.Concat(entryMagic, sum[:], rest), 0o600)
}

func readEntry(dir string) (*entry, error) {
	if err := checkPrivate(dir); err != nil {
		return nil, err
	}
	header, rest, err := readHeader(filepath.Join(dir, entryFile))
	if err != nil {
		return nil, err
	}
	data := len(rest) - header.Names
	stub := data - header.Data
	if header.Names < 0 || header.Data < 0 || stub < 0 {
		return nil, errEntry
	}
	sums, err := sumFiles(dir)
	if err != nil {
		return nil, err
	}
	if sums != header.Files {
		return nil, errOtherFiles
	}
	before, err := stats(dir)
	if err != nil {
		return nil, err
	}
	return &entry{info: header.Info, stub: rest[:stub], data: rest[stub:data], names: bytes.Clone(rest[data:]), stats: before}, nil
}

// readHeader reads and verifies a file "module". rest is what follows the header.
func readHeader(path string) (header *entryHeader, rest []byte, err error) {
	p, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	p, ok := bytes.CutPrefix(p, entryMagic)
	if !ok || len(p) < sha256.Size+4 {
		return nil, nil, errEntry
	}
	sum, rest := p[:sha256.Size], p[sha256.Size:]
	if have := sha256.Sum256(rest); !bytes.Equal(have[:], sum) {
		return nil, nil, errEntry
	}
	size := binary.LittleEndian.Uint32(rest)
	rest = rest[4:]
	if uint64(size) > uint64(len(rest)) {
		return nil, nil, errEntry
	}
	if err := json.Unmarshal(rest[:size], &header); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errEntry, err)
	}
	return header, rest[size:], nil
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
