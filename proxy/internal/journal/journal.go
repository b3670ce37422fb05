// Package journal persists the accounts of a gateway on the local disk, without a database: what requests hold and have
// spent of budgets, and the ledger, which sums up usage by day, key, team, model and provider.
//
// Every record is appended to a segment, a file of checksummed records, and one goroutine makes the appended records
// durable ten times a second. Until then they are also in memory that the kernel keeps, so killing the process loses
// none of them (see buffer). If memory cannot be mapped, appending a hold writes it and all earlier records with a
// system call. When a segment is full or its day is over, it is folded: the sums of its days are added to one
// file for each day (the ledger, which is never deleted), and what scopes have spent goes into a snapshot. At startup,
// the last snapshot and the segments after it are read. Folded segments are kept for a while as a record of single
// requests. Their holds are removed once two snapshots contain them.
//
// A killed process leaves holds behind. The next process settles them at their full amount and adds their requests to
// the ledger at the most that they can have cost. Reading a record more than once does not count it more than once:
// requests have an ID, each file names the last segment that it includes, and a hold is settled only once.
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

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// Options configures a Journal.
type Options struct {
	Zone   *time.Location // time zone of the ledger's days; nil means UTC
	Keep   time.Duration  // how long single requests are kept; 0 means forever, as their sums are
	Refuse bool           // if a hold cannot be written, Hold fails instead of keeping it only in memory
	Log    *slog.Logger   // nil discards logs

	// For tests. Now is the clock for days and ages, Interval the time between commits, and SegmentSize the size in
	// bytes at which a segment is folded. Create creates the file of a segment; setting it disables the buffer, so each
	// hold is written at once.
	Now         func() time.Time
	Interval    time.Duration
	SegmentSize int64
	Create      func(name string) (File, error)
}

// File is the file of the segment that is being written.
type File interface {
	io.WriterAt
	Sync() error
	Close() error
}

const (
	defaultInterval    = 100 * time.Millisecond
	defaultSegmentSize = 64 << 20

	// Pending records are written when they reach flushAt bytes. While the disk is full, up to maxPending bytes wait;
	// further records are dropped, but the sums in memory include them.
	flushAt    = 64 << 10
	maxPending = 16 << 20

	retryInterval = time.Second // after a failed write
)

// Journal is the journal of a running gateway. Open returns one; the caller must close it.
type Journal struct {
	o   Options
	dir string

	mu      sync.Mutex
	state   *state
	file    File
	header  header  // header of file
	offset  int64   // number of bytes written to file
	pending []byte  // records to be written at offset
	buffer  *buffer // copy of pending that outlives the process; nil if each hold is written to file
	closed  bool
	dirty   bool // some records may not be durable yet
	failure failure
	lost    int64 // number of records dropped because they could not be written
	appends int64 // number of records appended

	previous uint64 // last segment in the previous snapshot: segments up to it no longer need their holds
	through  uint64 // last segment in the current snapshot

	wake    chan struct{} // wakes the goroutine; buffered for one signal
	stop    chan struct{}
	stopped chan struct{}
	folding sync.WaitGroup
	busy    bool // a fold is running; guarded by mu
}

// failure is the reason that records cannot be written. The zero value means that they can.
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
	buffered := o.Create == nil
	if buffered {
		o.Create = func(name string) (File, error) { return os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) }
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
	for _, d := range read.damage {
		j.logDamage(d)
	}
	if read.last > read.through {
		// Fold these segments so that the next start does not read them again.
		if err := j.fold(j.prepare(read.last)); err != nil {
			return nil, fmt.Errorf("journal: %w", err)
		}
	}
	if err := j.startSegment(read.last + 1); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := j.bookUnfinished(); err != nil {
		return nil, errors.Join(fmt.Errorf("journal: %w", err), j.file.Close())
	}
	if buffered {
		if j.buffer, err = openBuffer(dir); err != nil {
			o.Log.Info("journal: cannot map memory for records; writing each hold to the file", "error", err)
		}
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

// startSegment creates a segment and makes it the current one. The caller holds mu or is the only user of j.
func (j *Journal) startSegment(number uint64) error {
	h := newHeader(formSegment)
	h.number, h.created = number, j.o.Now()
	f, err := j.newSegment(h)
	if err != nil {
		return err
	}
	j.useSegment(f, h)
	return nil
}

func (j *Journal) newSegment(h header) (File, error) {
	name := filepath.Join(j.dir, segmentName(h.number))
	f, err := j.o.Create(name)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(h.append(nil), 0); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	return f, syncDir(j.dir)
}

func (j *Journal) useSegment(f File, h header) {
	j.file, j.header, j.offset = f, h, firstAt
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
				j.settle(id, h.number, h.amount, 0)
			}
		}
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
		j.saveIfBuffered()
		j.notify()
	}
}

func (j *Journal) request(r *Request) {
	from := len(j.pending)
	n := j.labelNumber(&r.Labels)
	at := len(j.pending)
	j.pending = appendRequest(j.pending, r, n)
	j.state.request(j.pending[at:], n, j.header.number)
	j.sealFrom(from, at)
}

// Hold appends a hold. Once Hold has returned, the hold survives a kill of the process.
func (j *Journal) Hold(h *Hold) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return os.ErrClosed
	}
	from := len(j.pending)
	n := j.labelNumber(&h.Scopes)
	at := len(j.pending)
	j.pending = appendHold(j.pending, h, n, 0)
	j.state.hold(h, n)
	j.sealFrom(from, at)
	err := j.failure.err
	if err == nil {
		// After a failure, only the goroutine retries.
		err = j.save()
	}
	j.notify()
	if err != nil && j.o.Refuse {
		j.settle(h.Request, h.Number, 0, 0)
		j.discard(h.Request)
		return err
	}
	return nil
}

// discard forgets a request that was never sent, unless it still holds something.
func (j *Journal) discard(request uint64) {
	if o := j.state.open[request]; o != nil {
		for i := range o.holds {
			if !o.holds[i].settled || o.holds[i].amount != 0 {
				return
			}
		}
		o.listed = true
		j.state.closeDone(request, o)
	}
}

// Settle appends the settlement of a hold: what was used of it. It does not wait for the disk.
func (j *Journal) Settle(request, number uint64, amount cost.Nano, tokens int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.settle(request, number, amount, tokens)
		j.saveIfBuffered()
		j.notify()
	}
}

func (j *Journal) settle(request, number uint64, amount cost.Nano, tokens int64) {
	at := len(j.pending)
	j.pending = appendSettle(j.pending, request, number, amount, tokens)
	j.state.settle(request, number, amount, tokens)
	j.sealFrom(at, at)
}

// Adjust writes a budget adjustment. Once Adjust has returned nil, the adjustment survives a kill of the process. It
// fails with spend.ErrRepeated if the journal already has an adjustment with this ID.
func (j *Journal) Adjust(a *Adjustment) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return os.ErrClosed
	case j.failure.err != nil:
		return j.failure.err
	case j.state.adjusted(a.ID):
		return spend.ErrRepeated
	}
	at := len(j.pending)
	j.pending = appendAdjustment(j.pending, a)
	j.sealFrom(at, at)
	err := j.flush()
	j.setFailure(err)
	j.notify()
	if err != nil {
		j.pending = j.pending[:at]
		return err
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

// sealFrom seals the record that begins at offset at of pending. If pending is too long, it drops everything from
// offset from on: the record, and the labels that were appended for it.
func (j *Journal) sealFrom(from, at int) {
	j.appends++
	if len(j.pending) > maxPending {
		if from < at {
			j.state.forgetSegment()
		}
		j.pending = j.pending[:from]
		j.lost++
		return
	}
	seal(j.pending[at:], j.header.seed, j.offset+int64(at))
	if len(j.pending) >= flushAt && j.failure.err == nil {
		j.setFailure(j.flush())
	}
}

// forgetSegment makes the next use of each set of labels append a record of it to the segment again.
func (s *state) forgetSegment() {
	for _, l := range s.labels {
		l.segment = 0
	}
}

// save makes the pending records survive a kill of the process.
func (j *Journal) save() error {
	if j.buffer != nil && j.buffer.hasRoom(j.pending) {
		err := j.buffer.save(j.pending, &j.header, j.offset)
		if err == nil {
			return nil
		}
		j.o.Log.Warn("journal: mapped memory for records failed; writing each hold to the file from now on", "error", err)
		j.closeBuffer()
	}
	err := j.flush()
	j.setFailure(err)
	return err
}

// saveIfBuffered is save for records that are not worth a write of their own when there is no buffer.
func (j *Journal) saveIfBuffered() {
	if j.buffer != nil && j.failure.err == nil {
		_ = j.save() // an error is recorded in failure
	}
}

// closeBuffer removes the buffer. From then on, each hold is written to the segment.
func (j *Journal) closeBuffer() {
	if j.buffer != nil {
		_ = j.buffer.close()
		_ = os.Remove(filepath.Join(j.dir, bufferName))
		j.buffer = nil
	}
}

// flush writes the pending records. If that fails, they stay pending.
func (j *Journal) flush() error {
	if len(j.pending) == 0 {
		return nil
	}
	if _, err := j.file.WriteAt(j.pending, j.offset); err != nil {
		return err
	}
	j.offset += int64(len(j.pending))
	j.pending = j.pending[:0]
	if j.buffer != nil {
		j.buffer.saved = 0
	}
	if cap(j.pending) > 2*flushAt {
		j.pending = nil // it grew while the disk was full
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
		consequence := "requests are served, and their spending is counted only in memory"
		if j.o.Refuse {
			consequence = "requests with budgets are rejected"
		}
		j.o.Log.Error("journal cannot be written; "+consequence, "error", err)
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
		wait := j.o.Interval
		for {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-j.stop:
				return
			}
			if j.commit() == nil {
				break
			}
			wait = max(retryInterval, j.o.Interval)
		}
		j.rotate()
	}
}

// commit writes the pending records and makes the segment durable.
func (j *Journal) commit() error {
	j.mu.Lock()
	j.dirty = false
	err := j.flush()
	f := j.file
	j.mu.Unlock()
	if err == nil {
		err = f.Sync()
	}
	j.mu.Lock()
	j.setFailure(err)
	j.mu.Unlock()
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
	Pending  int64 // bytes not written yet
	Open     int   // requests with unsettled holds, or with holds and not in the ledger yet
}

// Stats returns the counts.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Stats{j.appends, j.lost, int64(len(j.pending)), len(j.state.open)}
}

// IsOpen reports whether the journal has a hold of the request and the ledger does not have the request yet.
func (j *Journal) IsOpen(request uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.state.open[request]
	return o != nil && !o.listed
}

// Flush writes the pending records, so that ReadUsage sees them.
func (j *Journal) Flush() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed || j.failure.err != nil {
		return j.failure.err
	}
	err := j.flush()
	j.setFailure(err)
	return err
}

// Dir returns the journal's folder.
func (j *Journal) Dir() string { return j.dir }

// Zone returns the time zone of the ledger's days.
func (j *Journal) Zone() *time.Location { return j.state.zone }

// Replay calls used with what scopes have used, and adjusted with the budget adjustments, with no locks held. Unsettled
// holds count as used at their full amount.
func (j *Journal) Replay(used func(kind byte, name string, at time.Time, requests, tokens int64, amount cost.Nano), adjusted func(Adjustment)) {
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
	if err == nil {
		j.closeBuffer() // after an error, the next start recovers its records
	}
	if e := j.file.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if j.offset == firstAt {
		return os.Remove(filepath.Join(j.dir, segmentName(j.header.number)))
	}
	if err := j.fold(j.prepare(j.header.number)); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}
