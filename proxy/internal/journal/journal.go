// Package journal keeps what a gateway must not forget, on one machine and without a database: what requests hold and have spent of
// budgets, and the ledger, which has how much each key, team, model and provider used on each day.
//
// Everything is appended to a segment, a file of checksummed records, and made durable ten times a second by one goroutine. Until then it
// is in memory that the kernel keeps, so that killing the process loses none of it (see buffer); where there is no such memory, appending
// a hold writes it, and what came before it, to the kernel. When a segment
// is full or its day is over, it is folded: the sums of its days go to a file each (the ledger, kept for ever), what scopes have spent
// goes to a snapshot. A start reads the last snapshot and the segments after it. Segments stay for a while as the raw requests, without
// holds once two snapshots have these.
//
// The process that was killed has left holds: the next one books them as spent, and their requests in the ledger, with the most that
// they can have cost. A record counts once, however often it is read: requests have an ID, each file says up to which segment it has
// them, and a hold is settled once.
//
// It does not know prices, budgets and refusals: packages cost and spend do. The folder belongs to one process, whose caller has locked
// it (package statedir); Usage and Read read it beside that process.
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

// Options are what a Journal is opened with.
type Options struct {
	Zone   *time.Location // of the ledger's days; nil: UTC
	Keep   time.Duration  // how long raw requests are kept; 0: for ever. Their sums are kept for ever.
	Refuse bool           // a hold that cannot be written is an error, instead of being kept in memory only
	Log    *slog.Logger   // nil: nothing is logged

	// For tests. Now is the clock of days and ages; Interval is the time between commits, and SegmentSize the size at which a segment is
	// folded, in bytes; Create creates a segment, to which each hold is written at once.
	Now         func() time.Time
	Interval    time.Duration
	SegmentSize int64
	Create      func(name string) (File, error)
}

// File is a segment that is being written.
type File interface {
	io.WriterAt
	Sync() error
	Close() error
}

const (
	defaultInterval    = 100 * time.Millisecond
	defaultSegmentSize = 64 << 20

	// flushAt is how many bytes of records are written at once at the latest, and maxPending how many wait while the disk is full. Further
	// ones are lost, though not what they add up to.
	flushAt    = 64 << 10
	maxPending = 16 << 20

	retryInterval = time.Second // after a write that failed
)

// Journal is the journal of a process. Open returns one; Close must be called.
type Journal struct {
	o   Options
	dir string

	mu      sync.Mutex
	state   *state
	file    File
	header  header  // of file
	offset  int64   // how much of file is written
	pending []byte  // records that are to be written at offset
	buffer  *buffer // of pending; nil: holds are written to file
	closed  bool
	dirty   bool // there are records that may not be durable
	failed  failure
	lost    int64 // records that were never written
	appends int64

	previous uint64 // the last segment in the snapshot before the current one: segments up to it need no holds
	through  uint64 // the last segment in the current snapshot

	wake    chan struct{} // has room for one
	stop    chan struct{}
	stopped chan struct{}
	folding sync.WaitGroup
	busy    bool // a fold is running; under mu
}

// failure is why records are not written.
type failure struct {
	err   error
	since time.Time
}

// NewID returns an ID for a request: random, so that no two of any process are the same.
func NewID() uint64 { return rand.Uint64() | 1 }

// Open opens the journal in a folder of its own, which it creates, and reads what is in it. What is damaged is logged and left out.
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
		o.Log.Info("journal: records of a killed gateway completed", "bytes", added)
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
		// The next start does not read these segments again.
		if err := j.fold(j.prepare(read.last)); err != nil {
			return nil, fmt.Errorf("journal: %w", err)
		}
	}
	if err := j.create(read.last + 1); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := j.book(); err != nil {
		return nil, errors.Join(fmt.Errorf("journal: %w", err), j.file.Close())
	}
	if buffered {
		if j.buffer, err = openBuffer(dir); err != nil {
			o.Log.Info("journal: each hold is written to the file, since memory for records cannot be mapped", "error", err)
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

// create begins a segment. The caller has mu, or is alone.
func (j *Journal) create(number uint64) error {
	h := newHeader(formSegment)
	h.number, h.made = number, j.o.Now()
	f, err := j.newSegment(h)
	if err != nil {
		return err
	}
	j.use(f, h)
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

func (j *Journal) use(f File, h header) {
	j.file, j.header, j.offset = f, h, firstAt
}

// book settles what earlier processes have left held, at its full amount, and lists their requests in the ledger.
func (j *Journal) book() error {
	for _, id := range j.state.unfinished() {
		o := j.state.open[id]
		if !o.listed {
			r := j.state.booking(id, o)
			j.request(&r)
		}
		// The settlement of the last hold gives o back.
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

// Request appends a finished request to the ledger. It does not wait, and does not retain r. It comes before the settlements of the
// request's holds, so that whatever the moment in which the process is killed, the ledger has the request once.
func (j *Journal) Request(r *Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.request(r)
		j.keep()
		j.notify()
	}
}

func (j *Journal) request(r *Request) {
	from := len(j.pending)
	n := j.label(&r.Labels)
	at := len(j.pending)
	j.pending = appendRequest(j.pending, r, n)
	j.state.request(j.pending[at:], n, j.header.number)
	j.sealFrom(from, at)
}

// Hold appends a hold. After it has returned, killing the process does not lose it.
func (j *Journal) Hold(h *Hold) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return os.ErrClosed
	}
	from := len(j.pending)
	n := j.label(&h.Scopes)
	at := len(j.pending)
	j.pending = appendHold(j.pending, h, n, 0)
	j.state.hold(h, n)
	j.sealFrom(from, at)
	err := j.failed.err
	if err == nil {
		// While the disk is full, only the goroutine tries again.
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

// discard forgets a request that holds nothing and was never sent.
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

// Settle appends what became of a hold. It does not wait.
func (j *Journal) Settle(request, number uint64, amount cost.Nano, tokens int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.settle(request, number, amount, tokens)
		j.keep()
		j.notify()
	}
}

func (j *Journal) settle(request, number uint64, amount cost.Nano, tokens int64) {
	at := len(j.pending)
	j.pending = appendSettle(j.pending, request, number, amount, tokens)
	j.state.settle(request, number, amount, tokens)
	j.sealFrom(at, at)
}

// Adjust writes a change of what is left of a budget: after it has returned nil, killing the process does not lose it. It fails with
// spend.ErrRepeated for an ID that the journal has already.
func (j *Journal) Adjust(a *Adjustment) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return os.ErrClosed
	case j.failed.err != nil:
		return j.failed.err
	case j.state.adjusted(a.ID):
		return spend.ErrRepeated
	}
	at := len(j.pending)
	j.pending = appendAdjustment(j.pending, a)
	j.sealFrom(at, at)
	err := j.flush()
	j.fail(err)
	j.notify()
	if err != nil {
		j.pending = j.pending[:at]
		return err
	}
	j.state.adjust(*a)
	return nil
}

// label returns the number of labels, of which the segment has a record.
func (j *Journal) label(l *Labels) uint32 {
	n := j.state.number(l)
	if s := j.state.labels[n]; s.segment != j.header.number {
		s.segment = j.header.number
		at := len(j.pending)
		j.pending = appendLabels(j.pending, l, n)
		seal(j.pending[at:], j.header.seed, j.offset+int64(at))
	}
	return n
}

// sealFrom completes the record at an offset of pending. If there is no room for it, it and what was appended from an earlier offset for it
// is left out.
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
	if len(j.pending) >= flushAt && j.failed.err == nil {
		j.fail(j.flush())
	}
}

// forgetSegment has all labels recorded again.
func (s *state) forgetSegment() {
	for _, l := range s.labels {
		l.segment = 0
	}
}

// save has what is pending outlive the process.
func (j *Journal) save() error {
	if j.buffer != nil && j.buffer.hasRoom(j.pending) {
		err := j.buffer.save(j.pending, &j.header, j.offset)
		if err == nil {
			return nil
		}
		j.o.Log.Warn("journal: each hold is written to the file from here on, since the mapped memory for records failed", "error", err)
		j.closeBuffer()
	}
	err := j.flush()
	j.fail(err)
	return err
}

// keep is save for what need not be written if memory for it cannot be mapped.
func (j *Journal) keep() {
	if j.buffer != nil && j.failed.err == nil {
		_ = j.save() // an error is in failed
	}
}

// closeBuffer has holds be written to the segment.
func (j *Journal) closeBuffer() {
	if j.buffer != nil {
		_ = j.buffer.close()
		_ = os.Remove(filepath.Join(j.dir, bufferName))
		j.buffer = nil
	}
}

// flush writes what is pending. What could not be written stays pending at its place.
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
		j.pending = nil // it has grown while the disk was full
	}
	return nil
}

// notify has the goroutine make durable what was appended.
func (j *Journal) notify() {
	if !j.dirty {
		j.dirty = true
		select {
		case j.wake <- struct{}{}:
		default:
		}
	}
}

// fail records whether writing fails, and logs it when that changes.
func (j *Journal) fail(err error) {
	switch {
	case err != nil && j.failed.err == nil:
		j.failed = failure{err, j.o.Now()}
		consequence := "requests are served, and what they spend is kept in memory"
		if j.o.Refuse {
			consequence = "requests with budgets are refused"
		}
		j.o.Log.Error("journal cannot be written; "+consequence, "error", err)
	case err == nil && j.failed.err != nil:
		j.o.Log.Info("journal can be written again", "after", j.o.Now().Sub(j.failed.since).Round(time.Second).String(), "lost_records", j.lost)
		j.failed = failure{}
	}
}

// run makes records durable until stop is closed.
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

// commit writes what is pending and makes it durable.
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
	j.fail(err)
	j.mu.Unlock()
	return err
}

// Failure returns since when the journal cannot be written, and why; nil if it can.
func (j *Journal) Failure() (since time.Time, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed.since, j.failed.err
}

// Stats are the journal's counts since it was opened.
type Stats struct {
	Appended int64 // records
	Lost     int64 // records that were never written, as the disk was full
	Pending  int64 // bytes that are not written yet
	Open     int   // requests that hold something
}

// Stats returns the counts.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Stats{j.appends, j.lost, int64(len(j.pending)), len(j.state.open)}
}

// IsOpen reports whether the journal has a hold of a request that is not in the ledger.
func (j *Journal) IsOpen(request uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.state.open[request]
	return o != nil && !o.listed
}

// Flush writes what was appended, so that Usage has it.
func (j *Journal) Flush() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed || j.failed.err != nil {
		return j.failed.err
	}
	err := j.flush()
	j.fail(err)
	return err
}

// Dir is the journal's folder.
func (j *Journal) Dir() string { return j.dir }

// Zone is the zone of the ledger's days.
func (j *Journal) Zone() *time.Location { return j.state.zone }

// Replay calls used and adjusted with what scopes have used, without locks. Of what is held and not settled, all counts as used.
func (j *Journal) Replay(used func(kind byte, name string, at time.Time, requests, tokens int64, amount cost.Nano), adjusted func(Adjustment)) {
	j.mu.Lock()
	replayed := j.state.collect()
	j.mu.Unlock()
	replayed.call(used, adjusted)
}

// Close writes what was appended, makes it durable, and folds it, so that the next start has nothing to read. Appends after it are lost.
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
		j.closeBuffer() // else the next start writes what it has
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
