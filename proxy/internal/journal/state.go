package journal

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// state is what the records of a journal amount to: what scopes have used, what is held, and the ledger's rows. The same methods make
// it while the gateway serves and when the journal is read again. It needs a lock around it.
type state struct {
	zone *time.Location

	names  map[Labels]uint32
	labels []*labelled // by number

	today            *day
	todayFrom, until int64 // seconds
	days             map[int32]*day
	load             func(int32) *day // what is known of a day that is not in days

	scopes      map[scope]*usage
	open        map[uint64]*openRequest // by request
	free        []*openRequest
	adjustments []Adjustment
}

// scope is what a budget is of.
type scope struct {
	kind byte // index of a field of Labels
	name string
}

const scopeKinds = 4 // key, team, model, provider: the first fields of Labels

// labelled is a set of labels that is in use.
type labelled struct {
	Labels
	scopes  [scopeKinds]*usage // made when something is held of them
	segment uint64             // the last one that has a record of the labels
}

// day is the ledger's rows of a day.
type day struct {
	number  int32  // days since 1970, in the journal's zone
	through uint64 // the last segment whose requests are in the day's file
	rows    map[uint32]*Sums
	dirty   bool // there are requests that are not in the file
}

// usage is what a scope has used, by time: minutes at first, which become hours, days and months as they age.
type usage struct{ buckets []bucket }

// openRequest is a request of which something is held, or that is not in the ledger.
type openRequest struct {
	holds  []openHold
	listed bool // the ledger has it
}

type openHold struct {
	number  uint64
	at      int64 // seconds
	labels  uint32
	settled bool
	amount  cost.Nano // held, or settled
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

// number returns the number of labels, given on first use.
func (s *state) number(l *Labels) uint32 {
	if n, known := s.names[*l]; known {
		return n
	}
	n := uint32(len(s.labels))
	s.names[*l] = n
	s.labels = append(s.labels, &labelled{Labels: *l})
	return n
}

// dayOf returns the number of the day that a time is in.
func dayOf(t time.Time, zone *time.Location) int32 {
	y, m, d := t.In(zone).Date()
	return int32(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

// dayName is the date of a day.
func dayName(n int32) string { return time.Unix(int64(n)*86400, 0).UTC().Format(time.DateOnly) }

func parseDay(date string) (int32, error) {
	t, err := time.Parse(time.DateOnly, date)
	return int32(t.Unix() / 86400), err
}

// at returns the day that a time is in.
func (s *state) at(seconds int64) *day {
	if seconds >= s.todayFrom && seconds < s.until {
		return s.today
	}
	t := time.Unix(seconds, 0).In(s.zone)
	n := dayOf(t, s.zone)
	d := s.days[n]
	if d == nil {
		d = s.load(n)
		s.days[n] = d
	}
	y, m, dd := t.Date()
	s.today = d
	s.todayFrom, s.until = time.Date(y, m, dd, 0, 0, 0, 0, s.zone).Unix(), time.Date(y, m, dd+1, 0, 0, 0, 0, s.zone).Unix()
	return d
}

// request counts the record of a request.
func (s *state) request(b []byte, labels uint32, segment uint64) {
	id := little.Uint64(b[8:])
	if len(s.open) > 0 {
		if o := s.open[id]; o != nil {
			o.listed = true
			s.closeDone(id, o)
		}
	}
	d := s.at(int64(little.Uint32(b[16:])))
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

// hold adds a hold. One that is there already is the same.
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
	if o.hold(h.Number) == nil {
		o.holds = append(o.holds, openHold{number: h.Number, at: h.At.Unix(), labels: labels, amount: h.Amount})
	}
}

func (o *openRequest) hold(number uint64) *openHold {
	for i := range o.holds {
		if o.holds[i].number == number {
			return &o.holds[i]
		}
	}
	return nil
}

// settle counts what became of a hold, once.
func (s *state) settle(request, number uint64, amount cost.Nano, tokens int64) {
	o := s.open[request]
	if o == nil {
		return
	}
	h := o.hold(number)
	if h == nil || h.settled {
		return
	}
	h.settled, h.amount = true, amount
	for _, u := range s.scopesOf(h.labels) {
		if u != nil {
			u.add(bucket{start: h.at - h.at%60, requests: 1, tokens: tokens, amount: amount})
		}
	}
	s.closeDone(request, o)
}

// closeDone forgets a request that is in the ledger and holds nothing.
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

// scopesOf returns the usages of the scopes in labels, nil where there is none.
func (s *state) scopesOf(labels uint32) *[scopeKinds]*usage {
	l := s.labels[labels]
	for i, name := range l.scopeNames() {
		if *name != "" && l.scopes[i] == nil {
			l.scopes[i] = s.usage(scope{byte(i), *name})
		}
	}
	return &l.scopes
}

func (s *state) usage(of scope) *usage {
	u := s.scopes[of]
	if u == nil {
		u = new(usage)
		s.scopes[of] = u
	}
	return u
}

// add adds what is of one minute.
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
}

// age joins old buckets: minutes to hours after two hours, hours to days after two days, days to months after seven weeks. Each begins
// where a window of budgets may begin.
func (u *usage) age(now time.Time, zone *time.Location) {
	kept := u.buckets[:0]
	for _, b := range u.buckets {
		t := time.Unix(b.start, 0).In(zone)
		switch age := now.Sub(t); {
		case age > 49*24*time.Hour:
			t = time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, zone)
		case age > 48*time.Hour:
			t = time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, zone)
		case age > 2*time.Hour:
			t = t.Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second)
		}
		b.start = t.Unix()
		if n := len(kept); n > 0 && kept[n-1].start >= b.start {
			kept[n-1].join(&b)
			continue
		}
		kept = append(kept, b)
	}
	u.buckets = kept
}

// adjust adds a change of what is left of a budget, unless it is there already.
func (s *state) adjust(a Adjustment) {
	if !s.adjusted(a.ID) {
		s.adjustments = append(s.adjustments, a)
	}
}

func (s *state) adjusted(id string) bool {
	return id != "" && slices.ContainsFunc(s.adjustments, func(a Adjustment) bool { return a.ID == id })
}

// age joins what is old, and forgets days whose file has all of them.
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

// unfinished returns the requests that were under way, in the order of their numbers.
func (s *state) unfinished() []uint64 { return slices.Sorted(maps.Keys(s.open)) }

// booking returns the ledger's record of a request whose end is not known: it counts with the most that it held, or with what was
// settled where all of its holds were.
func (s *state) booking(id uint64, o *openRequest) Request {
	r := Request{ID: id, Booked: true, Incomplete: true}
	for _, h := range o.holds {
		r.At = time.Unix(max(h.at, r.At.Unix()), 0)
		r.Cost = max(r.Cost, h.amount)
		for i, name := range s.labels[h.labels].fields() {
			if of := r.Labels.fields()[i]; *of == "" {
				*of = *name
			}
		}
	}
	return r
}

// replayed is what scopes have used.
type replayed struct {
	used        []replayedBucket
	adjustments []Adjustment
}

type replayedBucket struct {
	scope
	bucket
}

// collect returns what scopes have used. What is held counts as used.
func (s *state) collect() *replayed {
	r := &replayed{adjustments: slices.Clone(s.adjustments)}
	for of, u := range s.scopes {
		for _, b := range u.buckets {
			r.used = append(r.used, replayedBucket{of, b})
		}
	}
	for _, o := range s.open {
		for _, h := range o.holds {
			if h.settled {
				continue
			}
			for i, name := range s.labels[h.labels].scopeNames() {
				if *name != "" {
					r.used = append(r.used, replayedBucket{scope{byte(i), *name}, bucket{start: h.at, requests: 1, amount: h.amount}})
				}
			}
		}
	}
	return r
}

func (r *replayed) call(used func(kind byte, name string, at time.Time, requests, tokens int64, amount cost.Nano), adjusted func(Adjustment)) {
	for i := range r.used {
		u := &r.used[i]
		used(u.kind, u.name, time.Unix(u.start, 0), u.requests, u.tokens, u.amount)
	}
	for _, a := range r.adjustments {
		adjusted(a)
	}
}

// snapshot puts the state but for the ledger's rows into a file.
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
	for _, of := range slices.SortedFunc(maps.Keys(s.scopes), func(a, b scope) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) }) {
		var l Labels
		*l.scopeNames()[of.kind] = of.name
		n := number(l)
		for _, used := range s.scopes[of].buckets {
			b.add(func(dst []byte) []byte { return appendBucket(dst, &used, of.kind, n) })
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

// file puts a day into a file.
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
