package journal

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// state is the result of applying the records of a journal: what scopes have used, the holds, and the ledger's rows.
// The same methods build it while the gateway is running and when the journal is read again. It is not safe for
// concurrent use.
type state struct {
	zone *time.Location

	names  map[Labels]uint32
	labels []*labelled // indexed by number

	today            *day  // the day that was used last
	todayFrom, until int64 // first second of today and of the next day
	days             map[int32]*day
	load             func(int32) *day // returns a day that is not in days, from its file

	scopes      map[scope]*usage
	open        map[uint64]*openRequest // by request ID
	free        []*openRequest          // for reuse
	adjustments []Adjustment
}

// scope is a key, team, model, provider or user, which can have budgets.
type scope struct {
	kind byte // index into Labels.scopeNames
	name string
}

const scopeKinds = 5 // of Labels.scopeNames

// labelled is a numbered set of labels.
type labelled struct {
	Labels
	scopes  [scopeKinds]*usage // set when the first hold of these labels is settled
	segment uint64             // last segment that has a record of the labels
}

// day holds the ledger's rows of one day.
type day struct {
	number  int32            // days since 1970, in the journal's zone
	through uint64           // last segment whose requests the day's file includes
	rows    map[uint32]*Sums // by the number of their labels
	dirty   bool             // some requests are not in the day's file
}

// usage is what a scope has used over time, ascending. Buckets span a minute at first; as they age, they are merged
// into hours, days and months.
type usage struct{ buckets []bucket }

// openRequest is a request that has unsettled holds, or that has had holds and is not in the ledger yet.
type openRequest struct {
	holds  []openHold
	listed bool // the request is in the ledger
}

type openHold struct {
	number  uint64
	at      int64 // seconds
	labels  uint32
	settled bool
	amount  cost.Nano // amount held, or once settled, amount used
}

func newState(zone *time.Location) *state {
	if zone == nil {
		zone = time.UTC
	}
	return &state{
		zone: zone, names: make(map[Labels]uint32), days: make(map[int32]*day), scopes: make(map[scope]*usage),
		open: make(map[uint64]*openRequest), load: func(n int32) *day { return newDay(n) },
	}
}

func newDay(n int32) *day { return &day{number: n, rows: make(map[uint32]*Sums)} }

// labelNumber returns the number of a set of labels. It assigns one on first use.
func (s *state) labelNumber(l *Labels) uint32 {
	if n, known := s.names[*l]; known {
		return n
	}
	n := uint32(len(s.labels))
	s.names[*l] = n
	s.labels = append(s.labels, &labelled{Labels: *l})
	return n
}

// dayNumber returns the number of the day that t is in: days since 1970, in the zone.
func dayNumber(t time.Time, zone *time.Location) int32 {
	start, _ := config.PerDay.Window(t, zone)
	y, m, d := start.Date()
	return int32(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

// dayName returns the date of a day.
func dayName(n int32) string { return time.Unix(int64(n)*86400, 0).UTC().Format(time.DateOnly) }

func parseDay(date string) (int32, error) {
	t, err := time.Parse(time.DateOnly, date)
	return int32(t.Unix() / 86400), err
}

// dayAt returns the day that a time, in seconds since 1970, is in.
func (s *state) dayAt(seconds int64) *day {
	if seconds >= s.todayFrom && seconds < s.until {
		return s.today
	}
	t := time.Unix(seconds, 0)
	n := dayNumber(t, s.zone)
	d := s.days[n]
	if d == nil {
		d = s.load(n)
		s.days[n] = d
	}
	from, until := config.PerDay.Window(t, s.zone)
	s.today, s.todayFrom, s.until = d, from.Unix(), until.Unix()
	return d
}

// request adds the record b of a request, from a segment, to the ledger.
func (s *state) request(b []byte, labels uint32, segment uint64) {
	id := little.Uint64(b[8:])
	if len(s.open) > 0 {
		if o := s.open[id]; o != nil {
			o.listed = true
			s.closeDone(id, o)
		}
	}
	d := s.dayAt(int64(little.Uint32(b[16:])))
	if segment <= d.through {
		return
	}
	row := d.rows[labels]
	if row == nil {
		row = new(Sums)
		d.rows[labels] = row
	}
	row.count(b)
	d.dirty = true
}

// hold adds a hold, unless it has been added before.
func (s *state) hold(h *Hold, labels uint32) {
	o := s.open[h.Request]
	if o == nil {
		if n := len(s.free); n > 0 {
			o, s.free = s.free[n-1], s.free[:n-1]
		} else {
			o = new(openRequest)
		}
		s.open[h.Request] = o
	}
	if o.findHold(h.Number) == nil {
		o.holds = append(o.holds, openHold{number: h.Number, at: h.At.Unix(), labels: labels, amount: h.Amount})
	}
}

func (o *openRequest) findHold(number uint64) *openHold {
	for i := range o.holds {
		if o.holds[i].number == number {
			return &o.holds[i]
		}
	}
	return nil
}

// settle counts what was used of a hold, unless the hold has been settled before.
func (s *state) settle(used *Settlement) {
	o := s.open[used.Request]
	if o == nil {
		return
	}
	h := o.findHold(used.Number)
	if h == nil || h.settled {
		return
	}
	h.settled, h.amount = true, used.Amount
	for _, u := range s.labelUsages(h.labels) {
		if u != nil {
			u.add(bucket{start: h.at - h.at%60, requests: 1, tokens: used.Tokens, amount: used.Amount, uncertain: used.Uncertain})
		}
	}
	s.closeDone(used.Request, o)
}

// closeDone forgets a request if it is in the ledger and has no unsettled holds.
func (s *state) closeDone(id uint64, o *openRequest) {
	if !o.listed {
		return
	}
	for i := range o.holds {
		if !o.holds[i].settled {
			return
		}
	}
	delete(s.open, id)
	if len(s.free) < 1024 {
		*o = openRequest{holds: o.holds[:0]}
		s.free = append(s.free, o)
	}
}

// labelUsages returns the usages of the scopes in a set of labels; nil for a label that is empty.
func (s *state) labelUsages(labels uint32) *[scopeKinds]*usage {
	l := s.labels[labels]
	for i, name := range l.scopeNames() {
		if *name != "" && l.scopes[i] == nil {
			l.scopes[i] = s.usage(scope{byte(i), *name})
		}
	}
	return &l.scopes
}

func (s *state) usage(sc scope) *usage {
	u := s.scopes[sc]
	if u == nil {
		u = new(usage)
		s.scopes[sc] = u
	}
	return u
}

// add adds the usage of one minute.
func (u *usage) add(b bucket) {
	i := len(u.buckets)
	for i > 0 && u.buckets[i-1].start > b.start {
		i--
	}
	if i > 0 && u.buckets[i-1].start == b.start {
		u.buckets[i-1].join(&b)
		return
	}
	u.buckets = slices.Insert(u.buckets, i, b)
}

func (b *bucket) join(o *bucket) {
	b.requests += o.requests
	b.tokens += o.tokens
	b.amount = b.amount.Plus(o.amount)
	b.uncertain = b.uncertain.Plus(o.uncertain)
}

// age merges old buckets: into hours after two hours, into days after two days, into months after seven weeks. No
// bucket crosses the start of a budget window that can still be current.
func (u *usage) age(now time.Time, zone *time.Location) {
	kept := u.buckets[:0]
	for _, b := range u.buckets {
		per := config.PerMinute
		switch age := now.Sub(time.Unix(b.start, 0)); {
		case age > 49*24*time.Hour:
			per = config.PerMonth
		case age > 48*time.Hour:
			per = config.PerDay
		case age > 2*time.Hour:
			per = config.PerHour
		}
		start, _ := per.Window(time.Unix(b.start, 0), zone)
		b.start = start.Unix()
		if n := len(kept); n > 0 && kept[n-1].start >= b.start {
			kept[n-1].join(&b)
			continue
		}
		kept = append(kept, b)
	}
	u.buckets = kept
}

// adjust adds a budget adjustment, unless one with its ID has been added before.
func (s *state) adjust(a Adjustment) {
	if !s.adjusted(a.ID) {
		s.adjustments = append(s.adjustments, a)
	}
}

func (s *state) adjusted(id string) bool {
	return id != "" && slices.ContainsFunc(s.adjustments, func(a Adjustment) bool { return a.ID == id })
}

// age merges old buckets, and forgets days before yesterday whose files are complete.
func (s *state) age(now time.Time, yesterday int32) {
	for _, u := range s.scopes {
		u.age(now, s.zone)
	}
	for n, d := range s.days {
		if n < yesterday && !d.dirty {
			delete(s.days, n)
			if s.today == d {
				s.today, s.todayFrom, s.until = nil, 0, 0
			}
		}
	}
}

// unfinished returns the IDs of the open requests in ascending order.
func (s *state) unfinished() []uint64 { return slices.Sorted(maps.Keys(s.open)) }

// booking returns the ledger's record for a request whose outcome is unknown. It costs what all of its attempts hold, or
// have used: in the budgets of providers, or in those of the other scopes, whichever is more.
func (s *state) booking(id uint64, o *openRequest) Request {
	r := Request{ID: id, Booked: true, Incomplete: true}
	var sums [2]struct{ held, uncertain cost.Nano }
	for _, h := range o.holds {
		r.At = time.Unix(max(h.at, r.At.Unix()), 0)
		sum := &sums[0]
		if s.labels[h.labels].Provider != "" {
			sum = &sums[1]
		}
		sum.held = sum.held.Plus(h.amount)
		if !h.settled {
			sum.uncertain = sum.uncertain.Plus(h.amount)
		}
		for i, name := range s.labels[h.labels].fields() {
			if field := r.Labels.fields()[i]; *field == "" {
				*field = *name
			}
		}
	}
	for _, sum := range sums {
		if sum.held > r.Cost {
			r.Cost, r.Uncertain = sum.held, sum.uncertain
		}
	}
	return r
}

// replayed is a copy of what scopes have used, for use without the lock.
type replayed struct {
	used        []replayedBucket
	adjustments []Adjustment
}

type replayedBucket struct {
	scope
	bucket
}

// collect returns what scopes have used. Unsettled holds count as used at their full amount.
func (s *state) collect() *replayed {
	r := &replayed{adjustments: slices.Clone(s.adjustments)}
	for sc, u := range s.scopes {
		for _, b := range u.buckets {
			r.used = append(r.used, replayedBucket{sc, b})
		}
	}
	for _, o := range s.open {
		for _, h := range o.holds {
			if h.settled {
				continue
			}
			for i, name := range s.labels[h.labels].scopeNames() {
				if *name != "" {
					r.used = append(r.used, replayedBucket{scope{byte(i), *name}, bucket{start: h.at, requests: 1, amount: h.amount, uncertain: h.amount}})
				}
			}
		}
	}
	return r
}

// collectScope is like collect for one scope.
func (s *state) collectScope(sc scope) *replayed {
	r := new(replayed)
	for _, a := range s.adjustments {
		if (scope{a.Kind, a.Name}) == sc {
			r.adjustments = append(r.adjustments, a)
		}
	}
	if u := s.scopes[sc]; u != nil {
		for _, b := range u.buckets {
			r.used = append(r.used, replayedBucket{sc, b})
		}
	}
	for _, o := range s.open {
		for _, h := range o.holds {
			if name := *s.labels[h.labels].scopeNames()[sc.kind]; !h.settled && name == sc.name {
				r.used = append(r.used, replayedBucket{sc, bucket{start: h.at, requests: 1, amount: h.amount, uncertain: h.amount}})
			}
		}
	}
	return r
}

// Entry is what a scope has used around a time.
type Entry struct {
	Kind              byte
	Name              string
	At                time.Time
	Requests, Tokens  int64
	Amount, Uncertain cost.Nano // Uncertain is the part of Amount that is booked for unknown outcomes
}

func (r *replayed) call(used func(Entry), adjusted func(Adjustment)) {
	for i := range r.used {
		u := &r.used[i]
		used(Entry{u.kind, u.name, time.Unix(u.start, 0), u.requests, u.tokens, u.amount, u.uncertain})
	}
	for _, a := range r.adjustments {
		adjusted(a)
	}
}

// snapshot returns the contents of a snapshot file: the state without the ledger's rows.
func (s *state) snapshot(h header) []byte {
	b := newBuilder(h)
	numbers := make(map[Labels]uint32)
	number := func(l Labels) uint32 {
		n, known := numbers[l]
		if !known {
			n = uint32(len(numbers))
			numbers[l] = n
			b.add(func(dst []byte) []byte { return appendLabels(dst, &l, n) })
		}
		return n
	}
	for _, sc := range slices.SortedFunc(maps.Keys(s.scopes), func(a, b scope) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) }) {
		var l Labels
		*l.scopeNames()[sc.kind] = sc.name
		n := number(l)
		for _, used := range s.scopes[sc].buckets {
			b.add(func(dst []byte) []byte { return appendBucket(dst, &used, sc.kind, n) })
		}
	}
	for _, id := range s.unfinished() {
		o := s.open[id]
		for _, held := range o.holds {
			n, flags := number(s.labels[held.labels].Labels), byte(0)
			if held.settled {
				flags |= flagSettled
			}
			if o.listed {
				flags |= flagListed
			}
			hold := Hold{Request: id, Number: held.number, At: time.Unix(held.at, 0), Amount: held.amount}
			b.add(func(dst []byte) []byte { return appendHold(dst, &hold, n, flags) })
		}
	}
	for i := range s.adjustments {
		b.add(func(dst []byte) []byte { return appendAdjustment(dst, &s.adjustments[i]) })
	}
	records := b.records
	b.add(func(dst []byte) []byte { return appendEnd(dst, records) })
	return b.data
}

// file returns the contents of the day's file.
func (d *day) file(s *state, h header) []byte {
	b := newBuilder(h)
	for _, n := range slices.Sorted(maps.Keys(d.rows)) {
		b.add(func(dst []byte) []byte { return appendLabels(dst, &s.labels[n].Labels, n) })
		b.add(func(dst []byte) []byte { return appendRow(dst, d.rows[n], n) })
	}
	records := b.records
	b.add(func(dst []byte) []byte { return appendEnd(dst, records) })
	return b.data
}
