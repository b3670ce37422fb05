// Package journal persists the accounts of a gateway on the local disk, without a database: what requests hold and have
// spent of budgets, and the ledger, which sums up usage by day, key, team, model and provider.
//
// Every record is appended to a segment, a file of checksummed records, with a system call of its own, so killing the
// process loses none of them. One goroutine makes the appended records durable ten times a second. Segments are
// allocated on disk before they are used (see reserve), so that a full disk loses none either. When a segment is nearly
// full or its day is over, it is folded: the sums of its days are added to one file for each day (the ledger, which is
// never deleted), and what scopes have spent goes into a snapshot. At startup, the last snapshot and the segments after
// it are read. Folded segments are kept for a while as a record of single requests. Their holds are removed once two
// snapshots contain them.
//
// A killed process leaves holds behind. The next process settles them at their full amount, which it marks as uncertain,
// and adds their requests to the ledger at the most that they can have cost. Reading a record more than once does not
// count it more than once: requests have an ID, each file names the last segment that it includes, and a hold is settled
// only once.
//
// The package does not depend on prices or budgets and rejects no requests: see packages cost and spend. The folder
// belongs to one process, whose caller has locked it (package statedir). ReadUsage and ReadBudgets can read it while
// that process is running.
//
// Concurrency: a Journal is safe for concurrent use.
package journal

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// Options configures a Journal.
type Options struct {
	Zone   *time.Location // time zone of the ledger's days; nil means UTC
	Keep   time.Duration  // how long single requests are kept; 0 means forever, as their sums are
	Refuse bool           // Hold fails as soon as no room can be reserved, instead of when the reserved room is used
	Log    *slog.Logger   // nil discards logs

	// For tests. Now is the clock for days and ages, Interval the time between commits, and SegmentSize the size of a
	// segment in bytes. Create opens the file of a segment, and creates it if it does not exist.
	Now         func() time.Time
	Interval    time.Duration
	SegmentSize int64
	Create      func(name string) (File, error)
}

// File is the file of the segment that is being written.
type File interface {
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

const (
	defaultInterval    = 100 * time.Millisecond
	defaultSegmentSize = 16 << 20

	// While writing fails, up to maxPending bytes wait; further records are dropped, but the sums in memory include them.
	maxPending = 16 << 20

	retryInterval = time.Second // after a failed write
)

// Journal is the journal of a running gateway. Open returns one; the caller must close it.
type Journal struct {
	o   Options
	dir string

	mu        sync.Mutex
	state     *state
	file      File   // nil if none could be created because the disk is full
	header    header // header of file
	offset    int64  // number of bytes written to file
	capacity  int64  // number of bytes allocated to file
	reserved  int64  // number of bytes allocated to the next segment; 0 if none are
	pending   []byte // records to be written at offset
	unwritten bool   // writing pending has failed; only the goroutine retries
	closed    bool
	dirty     bool // some records may not be durable yet
	failure   failure
	lost      int64 // number of records dropped because they could not be written
	damaged   int   // number of files found damaged or missing by Open
	appends   int64 // number of records appended

	previous uint64 // last segment in the previous snapshot: segments up to it no longer need their holds
	through  uint64 // last segment in the current snapshot

	wake    chan struct{} // wakes the goroutine; buffered for one signal
	stop    chan struct{}
	stopped chan struct{}
	folding sync.WaitGroup
	busy    bool // a fold is running; guarded by mu
	ratios  ratios
}

// failure is the reason that records cannot be written, or no room reserved for them. The zero value means that they
// can.
type failure struct {
	err   error
	since time.Time
}

// NewID returns a random ID for a request, unique across processes.
func NewID() uint64 { return rand.Uint64() | 1 }

// Open opens the journal in dir, which it creates if necessary, and reads its files. Damaged records are logged and
// skipped.
func Open(dir string, o Options) (*Journal, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = defaultSegmentSize
	}
	if o.Create == nil {
		o.Create = func(name string) (File, error) { return os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600) }
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	removeTemporary(dir)
	if added, err := restore(dir); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	} else if added > 0 {
		o.Log.Info("journal: recovered records that a killed gateway had not written", "bytes", added)
	}
	read, err := readFolder(dir, o.Zone)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	j := &Journal{
		o: o, dir: dir, state: read.state, through: read.through, previous: read.through,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	j.damaged = len(read.damage)
	j.ratios.largest = readRatios(dir)
	for _, d := range read.damage {
		j.logDamage(d)
	}
	for n, end := range read.ends {
		// Free the room that a killed process had reserved.
		if name := filepath.Join(dir, segmentName(n)); end > 0 {
			_ = os.Truncate(name, end)
		}
	}
	if read.last > read.through {
		// Fold these segments so that the next start does not read them again.
		if err := j.fold(j.prepare(read.last)); isDiskFull(err) {
			o.Log.Error("journal: segments not folded", "error", err)
		} else if err != nil {
			return nil, fmt.Errorf("journal: %w", err)
		}
	}
	if err := j.start(read.last + 1); isDiskFull(err) {
		j.setFailure(err)
		j.notify()
	} else if err != nil {
		if j.file != nil {
			_ = j.file.Close()
		}
		return nil, fmt.Errorf("journal: %w", err)
	}
	j.busy = true
	j.folding.Go(func() {
		j.tidy()
		j.mu.Lock()
		j.busy = false
		j.mu.Unlock()
	})
	go j.run()
	return j, nil
}

func (j *Journal) logDamage(d Damage) {
	switch {
	case d.Err != nil:
		j.o.Log.Error("journal: file skipped", "file", d.File, "error", d.Err)
	case d.Skipped > 0:
		j.o.Log.Error("journal: damaged records skipped", "file", d.File, "bytes", d.Skipped, "torn_bytes", d.Torn)
	default:
		j.o.Log.Warn("journal: incomplete end ignored; the gateway was stopped while it wrote", "file", d.File, "bytes", d.Torn)
	}
}

// start starts a segment and books unfinished requests. The segment's file is created later if the disk is full.
func (j *Journal) start(number uint64) error {
	h := newHeader(formSegment)
	h.number, h.created = number, j.o.Now()
	j.header, j.offset = h, firstAt
	err := j.reserve()
	if err == nil || isDiskFull(err) {
		err = j.create()
	}
	j.unwritten = err != nil
	if err == nil || isDiskFull(err) {
		err = errors.Join(err, j.bookUnfinished())
	}
	if err == nil {
		err = j.reserve()
	}
	return err
}

// create creates the file of the current segment.
func (j *Journal) create() error {
	f, err := j.newSegment(j.header)
	if err != nil {
		return err
	}
	j.useSegment(f, j.header)
	return nil
}

// bookUnfinished settles the holds that earlier processes have left behind, at their full amounts, and adds their
// requests to the ledger.
func (j *Journal) bookUnfinished() error {
	for _, id := range j.state.unfinished() {
		o := j.state.open[id]
		if !o.listed {
			r := j.state.booking(id, o)
			j.request(&r)
		}
		// Settling the last hold recycles o, so its holds are copied first.
		for _, h := range append([]openHold(nil), o.holds...) {
			if !h.settled {
				j.settle(&Settlement{Request: id, Number: h.number, Amount: h.amount, Uncertain: h.amount})
			}
		}
	}
	if j.unwritten {
		return nil
	}
	if err := j.flush(); err != nil {
		return err
	}
	return j.file.Sync()
}

// Request appends a finished request to the ledger. It does not wait for the disk and does not retain r. Callers append
// the request before they settle its holds, so that the ledger has the request exactly once even if the process is
// killed in between.
func (j *Journal) Request(r *Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.request(r)
		if j.state.open[r.ID] == nil { // else a settlement follows, which writes both
			j.write()
		}
		j.notify()
	}
}

func (j *Journal) request(r *Request) {
	from := len(j.pending)
	holds := j.state.open[r.ID] != nil
	n := j.labelNumber(&r.Labels)
	at := len(j.pending)
	j.pending = appendRequest(j.pending, r, n)
	j.state.request(j.pending[at:], n, j.header.number)
	j.seal(at)
	if len(j.pending) > maxPending || !holds && j.isFull() {
		j.undo(from, n)
		j.lost++
	}
}

// Hold appends a hold. Once Hold has returned nil, the hold survives a kill of the process. It fails if the hold cannot
// be written, or with Options.Refuse if there is no room reserved for further ones.
func (j *Journal) Hold(h *Hold) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return os.ErrClosed
	case j.isFull() || j.o.Refuse && j.failure.err != nil:
		return j.failure.err
	}
	from := len(j.pending)
	n := j.labelNumber(&h.Scopes)
	at := len(j.pending)
	j.pending = appendHold(j.pending, h, n, 0)
	j.seal(at)
	j.write()
	j.notify()
	if j.unwritten {
		j.undo(from, n)
		return j.failure.err
	}
	j.state.hold(h, n)
	return nil
}

// Settle appends the settlement of a hold. It does not wait for the disk.
func (j *Journal) Settle(s *Settlement) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.settle(s)
		j.write()
		j.notify()
	}
}

func (j *Journal) settle(s *Settlement) {
	at := len(j.pending)
	j.pending = appendSettle(j.pending, s)
	j.state.settle(s)
	j.seal(at)
	if len(j.pending) > maxPending {
		j.pending = j.pending[:at]
		j.lost++
	}
}

// Adjust writes a budget adjustment. Once Adjust has returned nil, the adjustment survives a kill of the process. It
// fails with spend.ErrRepeated if the journal already has an adjustment with this ID.
func (j *Journal) Adjust(a *Adjustment) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return os.ErrClosed
	case j.isFull():
		return j.failure.err
	case j.state.adjusted(a.ID):
		return spend.ErrRepeated
	}
	at := len(j.pending)
	j.pending = appendAdjustment(j.pending, a)
	j.seal(at)
	j.write()
	j.notify()
	if j.unwritten {
		j.pending = j.pending[:at]
		return j.failure.err
	}
	j.state.adjust(*a)
	return nil
}

// labelNumber returns the number of a set of labels, and appends a record of the labels if the segment has none yet.
func (j *Journal) labelNumber(l *Labels) uint32 {
	n := j.state.labelNumber(l)
	if s := j.state.labels[n]; s.segment != j.header.number {
		s.segment = j.header.number
		at := len(j.pending)
		j.pending = appendLabels(j.pending, l, n)
		seal(j.pending[at:], j.header.seed, j.offset+int64(at))
	}
	return n
}

// seal seals the record that begins at an offset of pending.
func (j *Journal) seal(at int) {
	j.appends++
	seal(j.pending[at:], j.header.seed, j.offset+int64(at))
}

// undo removes the pending records from an offset on, which may include one of labels.
func (j *Journal) undo(from int, labels uint32) {
	j.pending = j.pending[:from]
	j.state.labels[labels].segment = 0
}

// write writes the pending records, so that they survive a kill of the process.
func (j *Journal) write() {
	if !j.unwritten {
		if err := j.flush(); err != nil {
			j.setFailure(err)
		}
	}
}

// flush writes the pending records. If that fails, they stay pending.
func (j *Journal) flush() error {
	j.unwritten = false
	if len(j.pending) > 0 {
		if _, err := j.file.WriteAt(j.pending, j.offset); err != nil {
			j.unwritten = true
			return err
		}
		j.offset += int64(len(j.pending))
		j.pending = j.pending[:0]
		if cap(j.pending) > 64<<10 {
			j.pending = nil // it grew while writing failed
		}
	}
	return nil
}

// notify wakes the goroutine, which makes the appended records durable.
func (j *Journal) notify() {
	if !j.dirty {
		j.dirty = true
		select {
		case j.wake <- struct{}{}:
		default:
		}
	}
}

// setFailure records the result of a write, nil for success, and logs when writing starts or stops failing.
func (j *Journal) setFailure(err error) {
	switch {
	case err != nil && j.failure.err == nil:
		j.failure = failure{err, j.o.Now()}
		consequence := "until the reserved room is used"
		if j.o.Refuse || j.unwritten {
			consequence = "no longer"
		}
		j.o.Log.Error("journal cannot be written, or has no room; requests with budgets are served "+consequence, "error", err, "reserved_bytes", max(j.capacity-j.offset, 0))
	case err == nil && j.failure.err != nil:
		j.o.Log.Info("journal can be written again", "after", j.o.Now().Sub(j.failure.since).Round(time.Second).String(), "lost_records", j.lost)
		j.failure = failure{}
	}
}

// run makes appended records durable until stop is closed.
func (j *Journal) run() {
	defer close(j.stopped)
	timer := time.NewTimer(0)
	<-timer.C
	for {
		select {
		case <-j.wake:
		case <-j.stop:
			return
		}
		for wait := j.o.Interval; ; wait = max(retryInterval, j.o.Interval) {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-j.stop:
				return
			}
			err := j.commit()
			if err == nil {
				err = errors.Join(j.rotate(), j.reserve())
			}
			j.mu.Lock()
			j.setFailure(err)
			j.mu.Unlock()
			if err == nil {
				break
			}
		}
	}
}

// commit writes the pending records and makes the segment durable.
func (j *Journal) commit() error {
	j.mu.Lock()
	j.dirty = false
	var err error
	if j.file == nil {
		err = j.create()
	}
	if err == nil {
		err = j.flush()
	}
	f := j.file
	j.mu.Unlock()
	if err == nil {
		err = f.Sync()
	}
	return err
}

// Failure returns since when and why the journal cannot be written. err is nil if it can be written.
func (j *Journal) Failure() (since time.Time, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failure.since, j.failure.err
}

// Stats are counts since the journal was opened.
type Stats struct {
	Appended int64 // records appended
	Lost     int64 // records dropped because the journal could not be written for too long
	Pending  int64 // bytes that could not be written yet
	Damaged  int   // files found damaged or missing when the journal was opened
	Open     int   // requests with unsettled holds, or with holds and not in the ledger yet
}

// Stats returns the counts.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Stats{j.appends, j.lost, int64(len(j.pending)), j.damaged, len(j.state.open)}
}

// IsOpen reports whether the journal has a hold of the request and the ledger does not have the request yet.
func (j *Journal) IsOpen(request uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.state.open[request]
	return o != nil && !o.listed
}

// Dir returns the journal's folder.
func (j *Journal) Dir() string { return j.dir }

// Zone returns the time zone of the ledger's days.
func (j *Journal) Zone() *time.Location { return j.state.zone }

// Replay calls used with what scopes have used, and adjusted with the budget adjustments, with no locks held. Unsettled
// holds count as used at their full amount.
func (j *Journal) Replay(used func(Entry), adjusted func(Adjustment)) {
	j.mu.Lock()
	replayed := j.state.collect()
	j.mu.Unlock()
	replayed.call(used, adjusted)
}

// Close writes the pending records, makes them durable and folds the segment, so that the next start does not have to
// read it. Records appended after Close are lost.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	j.mu.Unlock()
	close(j.stop)
	<-j.stopped
	j.folding.Wait()
	err := j.commit()
	if j.file != nil {
		err = errors.Join(err, j.file.Truncate(j.offset), j.file.Close())
	}
	switch {
	case err != nil:
	case j.offset == firstAt:
		err = os.Remove(filepath.Join(j.dir, segmentName(j.header.number)))
	default:
		err = j.fold(j.prepare(j.header.number))
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return os.Remove(filepath.Join(j.dir, markName))
}
