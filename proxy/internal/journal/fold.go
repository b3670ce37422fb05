package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The suffixes of file names. Segments and snapshots have numbers, padded with zeros so that names sort by number.
const (
	segmentSuffix  = ".segment"
	snapshotSuffix = ".snapshot"
	daySuffix      = ".day"
)

func segmentName(number uint64) string { return fmt.Sprintf("%012d%s", number, segmentSuffix) }
func snapshotName(n uint64) string     { return fmt.Sprintf("%012d%s", n, snapshotSuffix) }
func dayFile(n int32) string           { return dayName(n) + daySuffix }

// folder lists the files of a journal's folder by number, each kind ascending.
type folder struct {
	segments, snapshots []uint64
	days                []int32
}

func list(dir string) (folder, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return folder{}, err
	}
	var f folder
	for _, e := range entries {
		numbered := func(suffix string, to *[]uint64) {
			if text, ok := strings.CutSuffix(e.Name(), suffix); ok {
				if n, err := strconv.ParseUint(text, 10, 64); err == nil {
					*to = append(*to, n)
				}
			}
		}
		numbered(segmentSuffix, &f.segments)
		numbered(snapshotSuffix, &f.snapshots)
		if date, ok := strings.CutSuffix(e.Name(), daySuffix); ok {
			if n, err := parseDay(date); err == nil {
				f.days = append(f.days, n)
			}
		}
	}
	slices.Sort(f.segments)
	slices.Sort(f.snapshots)
	slices.Sort(f.days)
	return f, nil
}

func removeTemporary(dir string) {
	stale, _ := filepath.Glob(filepath.Join(dir, temporary+"*"))
	for _, name := range stale {
		_ = os.Remove(name)
	}
}

// image is the state after a segment, encoded as files that are ready to be written.
type image struct {
	through  uint64
	days     []*day
	files    [][]byte // the files of days
	snapshot []byte
}

// markUnwritten makes the next image include the days of an image whose files were not written. The caller holds mu.
func (i *image) markUnwritten() {
	for _, d := range i.days {
		d.dirty = true
	}
}

// prepare returns an image of the state, which includes all segments up to through. It marks the days in it as written,
// which markUnwritten reverts. The caller holds mu or is the only user of j.
func (j *Journal) prepare(through uint64) *image {
	now := j.o.Now()
	yesterday := dayNumber(now, j.state.zone) - 1
	j.state.age(now, yesterday)
	i := &image{through: through}
	h := newHeader(formDay)
	h.through = through
	for _, d := range j.state.days {
		if !d.dirty {
			continue
		}
		h.day = d.number
		i.days = append(i.days, d)
		i.files = append(i.files, d.file(j.state, h))
		d.dirty = false
	}
	s := newHeader(formSnapshot)
	s.through = through
	i.snapshot = j.state.snapshot(s)
	return i
}

// fold writes the files of an image, days first. After a crash between them, the segment is read again because no
// snapshot includes it, and the days that already include it ignore its requests.
func (j *Journal) fold(i *image) error {
	write := func(name string, data []byte) error {
		return writeWhole(filepath.Join(j.dir, name), func(f *os.File) error { _, err := f.Write(data); return err })
	}
	var err error
	for n, d := range i.days {
		if err = write(dayFile(d.number), i.files[n]); err != nil {
			break
		}
	}
	if err == nil {
		err = write(snapshotName(i.through), i.snapshot)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		i.markUnwritten()
		return err
	}
	j.previous, j.through = j.through, i.through
	return nil
}

// rotate starts a new segment and folds the current one if that is nearly full or its day is over.
func (j *Journal) rotate() error {
	now := j.o.Now()
	j.mu.Lock()
	empty := j.offset == firstAt && len(j.pending) == 0
	// Records are appended meanwhile, so the last quarter of the segment is left for them.
	due := j.offset >= j.capacity/4*3 || dayNumber(now, j.state.zone) != dayNumber(j.header.created, j.state.zone)
	if j.busy || empty || !due || j.reserved == 0 {
		j.mu.Unlock()
		return nil
	}
	h := newHeader(formSegment)
	h.number, h.created = j.header.number+1, now
	j.mu.Unlock()

	// Only this goroutine replaces j.file.
	f, err := j.newSegment(h)
	j.mu.Lock()
	if err == nil {
		if err = j.flush(); err != nil {
			_ = f.Close()
		}
	}
	if err != nil {
		j.mu.Unlock()
		return err
	}
	full, size, i := j.file, j.offset, j.prepare(j.header.number)
	j.useSegment(f, h)
	j.busy = true
	j.mu.Unlock()
	j.folding.Go(func() {
		err := errors.Join(full.Truncate(size), full.Sync(), full.Close())
		if err != nil {
			j.mu.Lock()
			i.markUnwritten()
			j.mu.Unlock()
		} else {
			err = j.fold(i)
		}
		if err != nil {
			// The segment remains, and is read again at the next start.
			j.o.Log.Error("journal: segment not folded", "segment", i.through, "error", err)
		} else {
			j.tidy()
		}
		j.mu.Lock()
		j.busy = false
		j.mu.Unlock()
	})
	return nil
}

// tidy removes the holds of segments that both of the last two snapshots include, older snapshots, and expired
// segments.
func (j *Journal) tidy() {
	j.mu.Lock()
	previous, through := j.previous, j.through
	j.mu.Unlock()
	f, err := list(j.dir)
	if err != nil {
		j.o.Log.Error("journal: folder not tidied", "error", err)
		return
	}
	for _, n := range f.snapshots {
		if n != previous && n != through {
			_ = os.Remove(filepath.Join(j.dir, snapshotName(n)))
		}
	}
	for _, n := range f.segments {
		if n > previous {
			break
		}
		name := filepath.Join(j.dir, segmentName(n))
		if j.o.Keep > 0 {
			if info, err := os.Stat(name); err == nil && j.o.Now().Sub(info.ModTime()) > j.o.Keep {
				_ = os.Remove(name)
				continue
			}
		}
		if err := stripHolds(name); err != nil {
			j.o.Log.Error("journal: holds not removed from segment", "file", filepath.Base(name), "error", err)
			return
		}
	}
}

// stripHolds rewrites a segment without its holds. It skips a segment that it has already stripped, and one that is
// damaged, because its contents may still be needed.
func stripHolds(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	var b *builder
	var h header
	damage, err := scanFile(name, formSegment, func(found header) bool {
		if found.folded {
			return true
		}
		h = found
		h.folded = true
		b = newBuilder(h)
		return false
	}, func(record []byte) {
		if k := kind(record[6]); k != kindHold && k != kindSettle {
			b.add(func(dst []byte) []byte { return append(dst, record...) })
		}
	})
	switch {
	case err != nil || b == nil || damage.any():
		// Damage was logged when the segment was read.
		return nil
	case int64(len(b.data)) == info.Size():
		err = markFolded(name, h)
	default:
		err = writeWhole(name, func(f *os.File) error { _, err := f.Write(b.data); return err })
	}
	return errors.Join(err, os.Chtimes(name, time.Time{}, info.ModTime()))
}

// markFolded overwrites the header of a segment that has no holds. It writes and syncs the two copies one after the
// other, so that one of them is always intact.
func markFolded(name string, h header) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for at := int64(0); at < firstAt && err == nil; at += headerSize {
		if _, err = f.WriteAt(h.append(nil)[:headerSize], at); err == nil {
			err = f.Sync()
		}
	}
	return errors.Join(err, f.Close())
}

// readResult is the result of readFolder.
type readResult struct {
	state   *state
	through uint64 // last segment in the snapshot
	last    uint64 // last segment in the folder
	damage  []Damage
	ends    map[uint64]int64 // where the contents of the segments after the snapshot end
}

var errMissing = errors.New("missing: what it recorded is lost")

// readFolder reads the last intact snapshot and the segments after it.
func readFolder(dir string, zone *time.Location) (*readResult, error) {
	mark := readMark(dir) // before the segments: the one that it names exists
	f, err := list(dir)
	if err != nil {
		return nil, err
	}
	r := &readResult{state: newState(zone), ends: make(map[uint64]int64)}
	for _, n := range slices.Backward(f.snapshots) {
		s := newState(zone)
		damage, err := s.readSnapshot(filepath.Join(dir, snapshotName(n)))
		if errors.Is(err, errVersion) {
			return nil, fmt.Errorf("%s: %w", damage.File, err)
		}
		if err == nil {
			r.state, r.through, r.last = s, n, n
			break
		}
		damage.Err = err
		r.damage = append(r.damage, damage)
	}
	r.state.load = func(n int32) *day {
		d, damage := r.state.readDay(dir, n)
		if damage.any() {
			r.damage = append(r.damage, damage)
		}
		return d
	}
	for _, n := range f.segments {
		if n <= r.through {
			continue
		}
		r.checkMissing(n - 1)
		r.last = n
		damage, err := r.state.readSegment(filepath.Join(dir, segmentName(n)), n)
		r.ends[n] = damage.end
		switch {
		case errors.Is(err, errVersion):
			return nil, err
		case err != nil:
			damage.Err = err
		}
		if damage.any() {
			r.damage = append(r.damage, damage)
		}
	}
	r.checkMissing(mark)
	return r, nil
}

// checkMissing reports a segment up to the given one that neither the snapshot includes nor the folder has.
func (r *readResult) checkMissing(through uint64) {
	if through > r.last {
		r.damage = append(r.damage, Damage{File: segmentName(r.last + 1), Err: errMissing})
		r.last = through
	}
}

// labelReader maps the numbers of labels in a file to those in a state.
type labelReader struct {
	s       *state
	numbers map[uint32]uint32
}

func (l *labelReader) add(record []byte) {
	var labels Labels
	if n, ok := readLabels(record, &labels); ok {
		l.numbers[n] = l.s.labelNumber(&labels)
	}
}

// number returns the number in the state. Labels whose record is damaged count as empty.
func (l *labelReader) number(n uint32) uint32 {
	if number, known := l.numbers[n]; known {
		return number
	}
	return l.s.labelNumber(new(Labels))
}

// readSegment adds a segment.
func (s *state) readSegment(name string, number uint64) (Damage, error) {
	labels := labelReader{s, make(map[uint32]uint32)}
	damage, err := scanSegment(name, func(b []byte) {
		switch kind(b[6]) {
		case kindLabels:
			labels.add(b)
		case kindRequest:
			s.request(b, labels.number(little.Uint32(b[20:])), number)
		case kindHold:
			var h Hold
			n := readHold(b, &h)
			s.hold(&h, labels.number(n))
		case kindSettle:
			used := readSettle(b)
			s.settle(&used)
		case kindAdjust:
			if a, ok := readAdjustment(b); ok {
				s.adjust(a)
			}
		}
	})
	if errors.Is(err, errHeader) {
		// The process was killed while it created the file.
		if data, e := os.ReadFile(name); e == nil && (len(data) < firstAt || len(bytes.Trim(data[:firstAt], "\x00")) == 0) {
			damage.Torn, err = int64(min(len(data), firstAt)), nil
		}
	}
	return damage, err
}

var errIncomplete = errors.New("incomplete or damaged")

// readSnapshot reads a snapshot. It fails unless the whole snapshot is valid.
func (s *state) readSnapshot(name string) (Damage, error) {
	labels := labelReader{s, make(map[uint32]uint32)}
	records, complete := int64(0), false
	damage, err := scanFile(name, formSnapshot, func(header) bool { return false }, func(b []byte) {
		if kind(b[6]) == kindEnd {
			complete = int64(little.Uint64(b[8:])) == records
		}
		records++
		switch kind(b[6]) {
		case kindLabels:
			labels.add(b)
		case kindBucket:
			used, kind, n := readBucket(b)
			if kind < scopeKinds {
				u := s.usage(scope{kind, *s.labels[labels.number(n)].scopeNames()[kind]})
				u.buckets = append(u.buckets, used)
			}
		case kindHold:
			var h Hold
			n := labels.number(readHold(b, &h))
			s.hold(&h, n)
			o := s.open[h.Request]
			o.listed = b[7]&flagListed != 0
			o.findHold(h.Number).settled = b[7]&flagSettled != 0
		case kindAdjust:
			if a, ok := readAdjustment(b); ok {
				s.adjust(a)
			}
		}
	})
	if err == nil && (!complete || damage.any()) {
		err = errIncomplete
	}
	return damage, err
}

// readDay reads the file of a day. Without a file, the day is empty.
func (s *state) readDay(dir string, n int32) (*day, Damage) {
	d, name := newDay(n), filepath.Join(dir, dayFile(n))
	labels := labelReader{s, make(map[uint32]uint32)}
	damage, err := scanFile(name, formDay, func(h header) bool { d.through = h.through; return false }, func(b []byte) {
		switch kind(b[6]) {
		case kindLabels:
			labels.add(b)
		case kindRow:
			row := new(Sums)
			d.rows[labels.number(readRow(b, row))] = row
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		damage.Err = err
	}
	return d, damage
}
