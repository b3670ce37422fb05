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

// diskCache stores rewritten modules and their machine code between starts. Each module has a directory, named by the
// module's key, with the file "module" (the entry) and the files that wazero writes.
//
// Machine code is executed as it was read, so it is verified first: the entry begins with a digest of its own content,
// and lists all other files of the directory with their checksums. A directory that does not match is removed, and the
// module is compiled again. Directories are written under a temporary name and renamed when complete, so processes can
// share the cache.
//
// Digests and checksums detect damage by a disk or a crash, not an attack. Against other users, the protection is that
// only this user or root may own the directory and write to it (checkPrivate). Root is allowed, because a container
// image brings compiled plugins in this way.
type diskCache struct {
	dir   string
	limit int64
}

const (
	defaultCacheBytes = 512 << 20
	entryFile         = "module"
	unfinished        = "new-"    // prefix of directories that are being written
	unfinishedAge     = time.Hour // age at which such a directory is removed
)

// entryMagic is the beginning of the file "module". It contains the version of the format.
var entryMagic = []byte("sluice module 6\n")

// openDiskCache opens the cache in a directory, which it creates if missing and otherwise checks with checkPrivate.
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

// checkPrivate returns an error if another user owns the directory or can write to it.
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
	// Check first whether the directory exists. Another process may publish it between this check and a failed read,
	// and then it must not be removed as damaged.
	if !exists(dir) {
		return "", nil, errNotCached
	}
	e, err := readEntry(dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, fmt.Errorf("unusable cache entry: %w", err)
	}
	// The modification time records when the module was last used. If setting it fails, sweep only removes it earlier.
	now := time.Now()
	_ = os.Chtimes(filepath.Join(dir, entryFile), now, now)
	return dir, e, nil
}

// explainMiss returns the reason, for the log, why a module has no entry: it may have been compiled for another
// processor.
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

// begin returns a new directory to compile into. The caller calls publish or remove for it.
func (c *diskCache) begin() (string, error) {
	return os.MkdirTemp(c.dir, unfinished)
}

func (c *diskCache) remove(dir string) { _ = os.RemoveAll(dir) }

// publish writes the entry into the directory and renames the directory to its key. If another process has published
// the module in the meantime, its directory stays.
func (c *diskCache) publish(dir string, key digest, e *entry) error {
	defer c.remove(dir)
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

// castagnoli is the polynomial for which processors have an instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumFiles lists the files below dir other than the entry, one "path size checksum" per line. The checksum is a CRC-32:
// machine code is large, and its SHA-256 took a quarter of the time of a start. wazero also has a checksum of its own
// over most of it.
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

// entry is the content of the file "module".
type entry struct {
	source digest // digest of the module's source; see Source
	info   fuel.Info
	stub   []byte // the metered module without its code and data
	data   []byte // the content of its data section; empty if the stub contains it
	names  names
	copies copiedFunctions

	stats map[string]fs.FileInfo // the other files of the directory, when the entry was read
}

// untouched reports whether the other files of the directory have not changed since the entry was read. wazero replaces
// a file that it rejects, and adds one if it does not find the one that it expects.
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

// entryHeader is the header of the file "module", as JSON. The file consists of entryMagic, the SHA-256 of the rest,
// the size of the header in four bytes (little-endian), the header, the stub module, the data and the names.
type entryHeader struct {
	Source    string // digest of the module's source, in hexadecimal
	Processor string // the processor that the machine code was compiled for
	Info      fuel.Info
	Files     string // the other files, as listed by sumFiles
	Data      int    // size of the data in bytes
	Names     int    // size of the names in bytes
	Copies    copiedFunctions
}

// Reasons for compiling a module.
var (
	errNoCache    = errors.New("no cache directory")
	errNotCached  = errors.New("not in the cache")
	errRejected   = errors.New("cached code rejected by the runtime")
	errEntry      = errors.New("damaged")
	errOtherFiles = errors.New("machine code files differ")
)

func writeEntry(dir string, e *entry) error {
	sums, err := sumFiles(dir)
	if err != nil {
		return err
	}
	header, err := json.Marshal(entryHeader{Source: hex.EncodeToString(e.source[:]), Processor: processor(), Info: e.info, Files: sums, Data: len(e.data), Names: len(e.names), Copies: e.copies})
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
	return &entry{info: header.Info, stub: rest[:stub], data: rest[stub:data], names: bytes.Clone(rest[data:]), copies: header.Copies, stats: before}, nil
}

// readHeader reads and verifies a file "module". rest is the part after the header.
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

// sweep removes old unfinished directories, and the least recently used modules until the rest is within the limit. It
// ignores errors: a cache that cannot be cleaned up still works.
func (c *diskCache) sweep() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	type module struct {
		path     string
		lastUsed time.Time
		size     int64
	}
	var modules []module
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
		m := module{path: path, lastUsed: info.ModTime(), size: treeSize(path)}
		if info, err := os.Stat(filepath.Join(path, entryFile)); err == nil {
			m.lastUsed = info.ModTime()
		}
		modules = append(modules, m)
		total += m.size
	}
	slices.SortFunc(modules, func(a, b module) int { return a.lastUsed.Compare(b.lastUsed) })
	for _, m := range modules {
		if total <= c.limit {
			return
		}
		if os.RemoveAll(m.path) == nil {
			total -= m.size
		}
	}
}

// treeSize returns the total size of the files below dir.
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
