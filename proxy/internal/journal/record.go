package journal

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// All files of the journal have the same layout: two copies of a header, then records. A record begins at a multiple of
// 8 bytes with
//
//	offset 0  checksum of everything that follows
//	       4  length of the record in units of 8 bytes
//	       6  kind
//	       7  flags
//
// and has a length that depends only on its kind, except for records that contain names. Numbers are little-endian. The
// checksum is a CRC-32C whose initial value is derived from the file's random seed and the record's offset in the file.
// A search for the next valid record therefore accepts neither a record copied from another offset nor one that a
// client has smuggled into a name.
const (
	unit      = 8
	headSize  = 8
	maxRecord = 8 << 10
)

// kind is the type of a record.
type kind uint8

const (
	kindLabels  kind = 1 + iota // a set of labels, and the number by which other records of the file refer to it
	kindRequest                 // a finished request
	kindHold                    // a hold; see Hold
	kindSettle                  // the settlement of a hold
	kindAdjust                  // a budget adjustment
	kindBucket                  // in a snapshot: what a scope has used in a span of time
	kindRow                     // in the file of a day: the sums of a ledger row
	kindEnd                     // the last record of a snapshot or a day, with the number of records before it
)

// The sizes of fixed-length records, in bytes.
const (
	requestSize = 64
	wideSize    = requestSize + 32 // a request with a count of 2^32 or more: the upper halves of the counts follow
	holdSize    = 48
	settleSize  = 40
	bucketSize  = 48
	rowSize     = 128
	endSize     = 16
)

var fixedSize = [kindEnd + 1]int{
	kindRequest: requestSize, kindHold: holdSize, kindSettle: settleSize, kindBucket: bucketSize, kindRow: rowSize, kindEnd: endSize,
}

// The flags of a request.
const (
	flagError = 1 << iota
	flagIncomplete
	flagEstimated
	flagBooked
)

// flagUncertain is a flag of records with an amount of money. The record then ends with 8 more bytes: how much of the
// amount is uncertain or, in an adjustment, how much of the uncertain amounts it gives back.
const flagUncertain = 1 << 7

// The flags of a hold in a snapshot.
const (
	flagSettled = 1 << iota // the hold is settled, and its amount is the amount used
	flagListed              // the request is in the ledger
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var little = binary.LittleEndian

// checksum returns the checksum of a record at an offset of a file.
func checksum(record []byte, seed uint32, offset int64) uint32 {
	return crc32.Update(seed^uint32(offset/unit)*0x9e3779b1, castagnoli, record[4:])
}

// begin appends a record of n bytes: its head without the checksum, then zeros.
//
// An uncertain amount is appended to the record, and makes it longer than n.
func begin(dst []byte, k kind, flags byte, n int, uncertain cost.Nano) (extended, record []byte) {
	at := len(dst)
	if uncertain != 0 {
		flags |= flagUncertain
		n += unit
	}
	for range n / unit {
		dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	record = dst[at:]
	little.PutUint16(record[4:], uint16(n/unit))
	record[6], record[7] = byte(k), flags
	if uncertain != 0 {
		little.PutUint64(record[n-unit:], uint64(uncertain))
	}
	return dst, record
}

// readUncertain returns the uncertain amount of a record.
func readUncertain(record []byte) cost.Nano {
	if record[7]&flagUncertain == 0 {
		return 0
	}
	return cost.Nano(little.Uint64(record[len(record)-unit:]))
}

// seal writes a record's checksum.
func seal(record []byte, seed uint32, offset int64) {
	little.PutUint32(record, checksum(record, seed, offset))
}

// validLength returns the length of the record at the beginning of data, or 0 if there is no valid one.
func validLength(data []byte, seed uint32, offset int64) int {
	if len(data) < headSize {
		return 0
	}
	n, k := int(little.Uint16(data[4:]))*unit, kind(data[6])
	fixed := 0
	if k <= kindEnd && fixedSize[k] != 0 {
		if fixed = fixedSize[k]; data[7]&flagUncertain != 0 {
			fixed += unit
		}
	}
	switch {
	case n <= headSize, n > maxRecord, n > len(data), k < kindLabels, k > kindEnd:
		return 0
	case fixed != 0 && n != fixed && !(k == kindRequest && n == fixed+wideSize-requestSize):
		return 0
	case little.Uint32(data) != checksum(data[:n], seed, offset):
		return 0
	}
	return n
}

func count32(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

func seconds(t time.Time) uint32 { return count32(t.Unix()) }

func timeAt(s uint32) time.Time { return time.Unix(int64(s), 0) }

// Request is a finished request in the ledger.
type Request struct {
	ID     uint64 // from NewID
	At     time.Time
	Labels Labels
	Tokens cost.Tokens
	Cost   cost.Nano

	Error      bool // the client received an error or a truncated response
	Incomplete bool // the response was truncated, or the client disconnected
	Estimated  bool // the tokens are estimated because the provider did not report them
	Booked     bool // an attempt ended with an unknown outcome, and the cost includes what it is booked at

	Uncertain cost.Nano // part of Cost that is booked for unknown outcomes
}

func (r *Request) flags() (f byte) {
	for i, set := range [...]bool{r.Error, r.Incomplete, r.Estimated, r.Booked} {
		if set {
			f |= 1 << i
		}
	}
	return f
}

func appendRequest(dst []byte, r *Request, labels uint32) []byte {
	t := &r.Tokens
	counts, size := [...]int64{t.Prompt, t.Completion, t.Cached, t.CacheWrite, t.CacheWrite1h, t.AudioIn, t.Reasoning, t.AudioOut}, requestSize
	if slices.Max(counts[:]) > math.MaxUint32 {
		size = wideSize
	}
	dst, b := begin(dst, kindRequest, r.flags(), size, r.Uncertain)
	little.PutUint64(b[8:], r.ID)
	little.PutUint32(b[16:], seconds(r.At))
	little.PutUint32(b[20:], labels)
	little.PutUint64(b[24:], uint64(r.Cost))
	for i, n := range counts {
		little.PutUint32(b[32+4*i:], uint32(max(n, 0)))
		if size == wideSize {
			little.PutUint32(b[requestSize+4*i:], uint32(max(n, 0)>>32))
		}
	}
	return dst
}

// Hold is the amount that a request, or one of its attempts, holds on the budgets of some scopes.
type Hold struct {
	Request uint64 // from NewID
	Number  uint64 // identifies the hold among those of the request
	At      time.Time
	Scopes  Labels // the scopes whose budgets are held; "" for the other kinds
	Amount  cost.Nano
}

func appendHold(dst []byte, h *Hold, labels uint32, flags byte) []byte {
	dst, b := begin(dst, kindHold, flags, holdSize, 0)
	little.PutUint64(b[8:], h.Request)
	little.PutUint64(b[16:], h.Number)
	little.PutUint64(b[24:], uint64(h.Amount))
	little.PutUint32(b[32:], seconds(h.At))
	little.PutUint32(b[36:], labels)
	return dst
}

func readHold(b []byte, h *Hold) (labels uint32) {
	*h = Hold{
		Request: little.Uint64(b[8:]), Number: little.Uint64(b[16:]), Amount: cost.Nano(little.Uint64(b[24:])), At: timeAt(little.Uint32(b[32:])),
	}
	return little.Uint32(b[36:])
}

// Settlement is what was used of a hold.
type Settlement struct {
	Request, Number   uint64    // of the hold
	Amount, Uncertain cost.Nano // Uncertain is the part of Amount that is booked for an unknown outcome
	Tokens            int64
}

func appendSettle(dst []byte, s *Settlement) []byte {
	dst, b := begin(dst, kindSettle, 0, settleSize, s.Uncertain)
	little.PutUint64(b[8:], s.Request)
	little.PutUint64(b[16:], s.Number)
	little.PutUint64(b[24:], uint64(s.Amount))
	little.PutUint64(b[32:], uint64(s.Tokens))
	return dst
}

func readSettle(b []byte) Settlement {
	return Settlement{little.Uint64(b[8:]), little.Uint64(b[16:]), cost.Nano(little.Uint64(b[24:])), readUncertain(b), int64(little.Uint64(b[32:]))}
}

// bucket is the usage of a scope from start until the start of the next bucket.
type bucket struct {
	start            int64 // seconds since 1970
	requests, tokens int64
	amount           cost.Nano
	uncertain        cost.Nano // part of amount
}

func appendBucket(dst []byte, u *bucket, kind byte, labels uint32) []byte {
	dst, b := begin(dst, kindBucket, kind, bucketSize, u.uncertain)
	little.PutUint64(b[8:], uint64(u.start))
	little.PutUint64(b[16:], uint64(u.requests))
	little.PutUint64(b[24:], uint64(u.tokens))
	little.PutUint64(b[32:], uint64(u.amount))
	little.PutUint32(b[40:], labels)
	return dst
}

func readBucket(b []byte) (u bucket, scope byte, labels uint32) {
	return bucket{
		int64(little.Uint64(b[8:])), int64(little.Uint64(b[16:])), int64(little.Uint64(b[24:])), cost.Nano(little.Uint64(b[32:])),
		readUncertain(b),
	}, b[7] &^ flagUncertain, little.Uint32(b[40:])
}

// Sums are the sums of requests.
type Sums struct {
	Requests, Errors, Incomplete, Estimated int64
	Booked                                  int64 // requests with an attempt whose outcome is unknown
	Tokens                                  cost.Tokens
	Cost                                    cost.Nano
	Uncertain                               cost.Nano // part of Cost that is booked for unknown outcomes
}

func (s *Sums) numbers() [14]*int64 {
	t := &s.Tokens
	return [...]*int64{
		&s.Requests, &s.Errors, &s.Incomplete, &s.Estimated, &s.Booked, (*int64)(&s.Cost),
		&t.Prompt, &t.Completion, &t.Cached, &t.CacheWrite, &t.CacheWrite1h, &t.AudioIn, &t.Reasoning, &t.AudioOut,
	}
}

// Add adds other sums.
func (s *Sums) Add(o *Sums) {
	from := o.numbers()
	for i, n := range s.numbers() {
		*n += *from[i]
	}
	s.Uncertain = s.Uncertain.Plus(o.Uncertain)
}

// count adds the record of a request.
func (s *Sums) count(b []byte) {
	f := b[7]
	s.Requests++
	s.Errors += int64(f & flagError)
	s.Incomplete += int64(f & flagIncomplete / flagIncomplete)
	s.Estimated += int64(f & flagEstimated / flagEstimated)
	s.Booked += int64(f & flagBooked / flagBooked)
	s.Cost = s.Cost.Plus(cost.Nano(little.Uint64(b[24:])))
	s.Uncertain = s.Uncertain.Plus(readUncertain(b))
	t, n := &s.Tokens, func(i int) int64 {
		v := int64(little.Uint32(b[32+4*i:]))
		if len(b) >= wideSize {
			v |= int64(little.Uint32(b[requestSize+4*i:])) << 32
		}
		return v
	}
	t.Prompt += n(0)
	t.Completion += n(1)
	t.Cached += n(2)
	t.CacheWrite += n(3)
	t.CacheWrite1h += n(4)
	t.AudioIn += n(5)
	t.Reasoning += n(6)
	t.AudioOut += n(7)
}

func appendRow(dst []byte, s *Sums, labels uint32) []byte {
	dst, b := begin(dst, kindRow, 0, rowSize, s.Uncertain)
	little.PutUint32(b[8:], labels)
	for i, n := range s.numbers() {
		little.PutUint64(b[16+8*i:], uint64(*n))
	}
	return dst
}

func readRow(b []byte, s *Sums) (labels uint32) {
	for i, n := range s.numbers() {
		*n = int64(little.Uint64(b[16+8*i:]))
	}
	s.Uncertain = readUncertain(b)
	return little.Uint32(b[8:])
}

func appendEnd(dst []byte, records int64) []byte {
	dst, b := begin(dst, kindEnd, 0, endSize, 0)
	little.PutUint64(b[8:], uint64(records))
	return dst
}

// Labels are the attributes of a request that the ledger can be grouped by; "" if the request has no such attribute.
type Labels struct {
	Key, Team, Model, Provider string
	Tags                       string // in the form shown to operators, such as "plan=gold region=eu"
	User                       string // person behind the key
}

func (l *Labels) fields() [6]*string {
	return [...]*string{&l.Key, &l.Team, &l.Model, &l.Provider, &l.Tags, &l.User}
}

// scopeNames returns the labels that can have budgets, indexed by the kind of scope.
func (l *Labels) scopeNames() [scopeKinds]*string {
	return [...]*string{&l.Key, &l.Team, &l.Model, &l.Provider, &l.User}
}

// maxLabel is the maximum length of a label, in bytes, so that a set of labels fits in a record. Names in the
// configuration are shorter.
const maxLabel = 1 << 10

func appendLabels(dst []byte, l *Labels, number uint32) []byte {
	n, fields := headSize+4, l.fields()
	last := len(fields)
	if l.User == "" { // as in files from before there were users
		last--
	}
	for _, s := range fields[:last] {
		n += 2 + min(len(*s), maxLabel)
	}
	dst, b := begin(dst, kindLabels, 0, (n+unit-1)/unit*unit, 0)
	little.PutUint32(b[8:], number)
	b = b[12:]
	for _, s := range fields[:last] {
		text := (*s)[:min(len(*s), maxLabel)]
		little.PutUint16(b, uint16(len(text)))
		b = b[2+copy(b[2:], text):]
	}
	return dst
}

// readLabels reads a set of labels. ok is false if the record is malformed.
func readLabels(b []byte, l *Labels) (number uint32, ok bool) {
	if len(b) < headSize+4 {
		return 0, false
	}
	number, b = little.Uint32(b[8:]), b[12:]
	for _, s := range l.fields() {
		if s == &l.User && len(b) < 2 {
			break
		}
		if len(b) < 2 {
			return 0, false
		}
		n := int(little.Uint16(b))
		if b = b[2:]; n > len(b) {
			return 0, false
		}
		*s, b = string(b[:n]), b[n:]
	}
	return number, true
}

// Adjustment adds Credit to what is left of a budget in the window that contains At.
type Adjustment struct {
	Kind   byte   // kind of the scope
	Name   string // name of the scope
	Per    byte   // period of the budget
	At     time.Time
	Credit cost.Nano
	Reason string
	ID     string // a second adjustment with the same ID is ignored; may be ""

	Released cost.Nano // how much of the uncertain amounts that the budget has spent is thereby given back
}

const (
	maxReason = 1 << 10
	maxID     = 64
)

func appendAdjustment(dst []byte, a *Adjustment) []byte {
	name, reason, id := a.Name[:min(len(a.Name), maxLabel)], a.Reason[:min(len(a.Reason), maxReason)], a.ID[:min(len(a.ID), maxID)]
	n := headSize + 24 + len(name) + len(reason) + len(id)
	dst, b := begin(dst, kindAdjust, 0, (n+unit-1)/unit*unit, a.Released)
	little.PutUint64(b[8:], uint64(a.At.UnixNano()))
	little.PutUint64(b[16:], uint64(a.Credit))
	b[24], b[25] = a.Kind, a.Per
	little.PutUint16(b[26:], uint16(len(name)))
	little.PutUint16(b[28:], uint16(len(reason)))
	little.PutUint16(b[30:], uint16(len(id)))
	copy(b[32:], name)
	copy(b[32+len(name):], reason)
	copy(b[32+len(name)+len(reason):], id)
	return dst
}

func readAdjustment(b []byte) (a Adjustment, ok bool) {
	if len(b) < 32 {
		return a, false
	}
	name, reason, id := int(little.Uint16(b[26:])), int(little.Uint16(b[28:])), int(little.Uint16(b[30:]))
	released := readUncertain(b)
	if id > maxID || len(b) < 32+name+reason+id {
		return a, false
	}
	return Adjustment{
		Kind: b[24], Per: b[25], At: time.Unix(0, int64(little.Uint64(b[8:]))), Credit: cost.Nano(little.Uint64(b[16:])),
		Name: string(b[32 : 32+name]), Reason: string(b[32+name : 32+name+reason]),
		ID: string(b[32+name+reason : 32+name+reason+id]), Released: released,
	}, true
}
