package ownership

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Each generation has a file: a header, then records of fixed size in the order in which the objects were made. A
// record is written at once and never changed, so a process that is killed loses nothing, and a record that was damaged
// or only half written when the machine stopped is skipped. There is nothing to compact: the file of the oldest
// generation is deleted when a new one starts.
const (
	prefix     = "ids-" // followed by the number of the generation
	headerSize = 16
	recordSize = len(digest{}) + entrySize + 4 // the digest, the entry, and a CRC-32C of both
	entrySize  = 16
)

// header is at the beginning of each file. Its last byte is the version of the format.
var header = []byte("sluice-owners\x00\x00\x01")

var (
	little     = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// append appends the entry as it is in files and in Shared.
func (e entry) append(dst []byte) []byte {
	return little.AppendUint32(little.AppendUint32(little.AppendUint64(dst, e.account), e.provider), e.at)
}

// readEntry reads an entry.
func readEntry(b []byte) (e entry, ok bool) {
	if len(b) != entrySize {
		return e, false
	}
	return entry{little.Uint64(b), little.Uint32(b[8:]), little.Uint32(b[12:])}, true
}

func appendRecord(dst []byte, d digest, e entry) []byte {
	at := len(dst)
	dst = e.append(append(dst, d[:]...))
	return little.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
}

var errHeader = errors.New("not a file of this version, or damaged")

// readRecords calls f with each intact record of a file, and returns the number of records and of damaged bytes. A
// record of which only a part was written does not count.
func readRecords(data []byte, f func(digest, entry)) (records, damaged int, err error) {
	if len(data) < headerSize || !bytes.Equal(data[:headerSize], header) {
		return 0, 0, errHeader
	}
	data = data[headerSize:]
	for ; len(data) >= recordSize; data = data[recordSize:] {
		records++
		body := data[:recordSize-4]
		if little.Uint32(data[recordSize-4:]) != crc32.Checksum(body, castagnoli) {
			damaged += recordSize
			continue
		}
		e, _ := readEntry(body[len(digest{}):])
		f(digest(body[:len(digest{})]), e)
	}
	return records, damaged + len(data), nil
}

// file is the file of the newest generation, in the folder dir.
type file struct {
	dir    string
	number int
	n      int      // records in the file, including damaged ones
	f      *os.File // nil if the file could not be created; append tries again
	buf    []byte
}

// append writes a record. After a failure, the next record takes its place.
func (f *file) append(d digest, e entry) error {
	if f.f == nil {
		if err := f.create(); err != nil {
			return err
		}
	}
	f.buf = appendRecord(f.buf[:0], d, e)
	_, err := f.f.WriteAt(f.buf, headerSize+int64(f.n)*int64(recordSize))
	if err == nil {
		f.n++
	}
	return err
}

// next continues with the file of a new generation, and deletes the files of generations that have been dropped.
func (f *file) next() error {
	err := f.close()
	f.number, f.n = f.number+1, 0
	err = errors.Join(err, f.create())
	numbers, e := numbers(f.dir)
	err = errors.Join(err, e)
	for _, n := range numbers {
		if n <= f.number-generations {
			err = errors.Join(err, os.Remove(path(f.dir, n)))
		}
	}
	return err
}

// create creates the file, with its header.
func (f *file) create() error {
	created, err := os.OpenFile(path(f.dir, f.number), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if _, err := created.Write(header); err != nil {
		return errors.Join(err, created.Close())
	}
	f.f = created
	return nil
}

func (f *file) close() (err error) {
	if f != nil && f.f != nil {
		err = f.f.Close()
		f.f = nil
	}
	return err
}

// load reads the files in a folder, and continues the newest one.
func (s *Store) load(dir string) error {
	all, err := numbers(dir)
	if err != nil {
		return err
	}
	s.file = &file{dir: dir}
	for _, number := range all {
		name := path(dir, number)
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		known, now := make(map[digest]entry), s.o.Now()
		records, damaged, err := readRecords(data, func(d digest, e entry) {
			if !e.expired(now) {
				known[d] = e
			}
		})
		s.file.number = number
		switch {
		case err != nil:
			s.o.Log.Warn("file of stored responses skipped", "file", name, "error", err)
			continue
		case damaged > 0:
			s.o.Log.Warn("file of stored responses damaged; the rest is used", "file", name, "damaged_bytes", damaged)
		}
		s.all = append(s.all, known)
		if number == all[len(all)-1] {
			s.file.n = records
			if s.file.f, err = os.OpenFile(name, os.O_RDWR, 0o600); err != nil {
				return err
			}
		}
	}
	if s.file.f == nil {
		s.all = append(s.all, make(map[digest]entry))
		err = s.file.next()
	}
	s.all = s.all[max(0, len(s.all)-generations):]
	return err
}

func path(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("%s%08d", prefix, number))
}

// numbers returns the numbers of the files in a folder, in ascending order.
func numbers(dir string) (all []int, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		digits, _ := strings.CutPrefix(e.Name(), prefix)
		if n, err := strconv.Atoi(digits); err == nil && n > 0 && path(dir, n) == filepath.Join(dir, e.Name()) {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, err
}
