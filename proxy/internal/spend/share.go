package spend

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// shared is the state of the counters of a scope that are shared with other gateways. It is guarded by the mutex of its
// usage. The state of shared budgets is in the windows of the usage.
type shared struct {
	account    *Account // the account in the latest configuration, whose limits are reported
	requests   rateGrant
	tokens     rateGrant
	concurrent grant

	leased time.Time // until when grants of rates and concurrent requests may be used
	active time.Time // when a request last used the scope
	dirty  bool      // something has been used since the last report
	lost   bool      // the store has lost data and does not grant anything yet

	resting    bool  // idle as of the last report: what the scope keeps is renewed only before its lease ends
	unanswered bool  // the last report received no reply
	damaged    error // why the store cannot count the scope; nil if it can

	first, acknowledged int64         // as in Report
	reported            time.Time     // when the last report was sent that received a reply
	done                chan struct{} // closed when the report in flight ends; nil if none is
	round               int           // number of reports so far
	replies             int           // number of replies so far
}

// grant is what this gateway has been granted of one counter.
type grant struct {
	granted int64 // including what has been used
	used    int64 // only for rates
	size    int64 // how much was free after the last reply

	known bool          // the fields below are from a reply
	left  int64         // how much was left for all gateways, as of the last reply
	retry time.Duration // time until what was wanted may be left, as of the last reply; 0 if unknown

	want  int64 // what all waiting requests need together
	least int64 // the smallest part of it that would suffice for one of them
}

// rateGrant is what this gateway has been granted of a rate.
type rateGrant struct {
	grant
	recent recent
}

// recent counts how much of a rate this gateway has used in the last 60 to 70 seconds, in slots of ten seconds. It is
// an upper bound of this gateway's part of the level, which the store shares between all gateways and drains only once
// for all of them.
type recent struct {
	uses [7]int64
	slot int64 // latest slot: Unix time divided by ten seconds
}

// add adds uses. now may be a little before that of an earlier call.
func (r *recent) add(uses int64, now time.Time) {
	r.advance(now)
	i := r.slot % int64(len(r.uses))
	r.uses[i] = saturate(r.uses[i], uses)
}

// advance clears slots that are older than a minute.
func (r *recent) advance(now time.Time) {
	slot := now.Unix() / 10
	for range min(slot-r.slot, int64(len(r.uses))) {
		r.slot++
		r.uses[r.slot%int64(len(r.uses))] = 0
	}
	r.slot = max(r.slot, slot)
}

func (r *recent) sum(now time.Time) (sum int64) {
	r.advance(now)
	for _, uses := range r.uses {
		sum = saturate(sum, uses)
	}
	return sum
}

// free returns what is left of a grant. If all gateways together have more than the limit, because it was lowered or
// was exceeded while the store could not be reached, each gateway subtracts the excess.
func (g *grant) free(used, held int64) int64 { return g.granted - used - held + min(g.left, 0) }

// addWant adds what a request needs to what the next report asks for, less what is free. least is the smallest part of
// need that would suffice. A negative need takes back what was added.
func (g *grant) addWant(need, least int64) {
	if need <= 0 {
		g.want = max(g.want+need, 0)
		return
	}
	if g.want == 0 || least < g.least {
		g.least = least
	}
	g.want = saturate(g.want, need)
}

func saturate(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// asking tracks what a request has asked the store for so far.
type asking struct {
	answered uint8      // bit set of the accounts for which the store has been asked: no more is left than it replied
	rounds   [kinds]int // number, from 1, of the report that asks for what the request needs; 0 if none does
	replies  [kinds]int // number of replies when the request last looked
	last     bool       // the request does not ask again
	late     bool       // the request has waited in vain for long enough
	only     bool       // the request is only checked
}

// state tells whether a request may use a shared counter.
type state uint8

const (
	enough  state = iota // enough is granted
	ask                  // not enough is granted, but the store may have more
	nothing              // not enough is granted, and the store has no more
	down                 // not enough is granted, and the store cannot be reached
)

// grantState returns whether a request that needs need of a counter may use it, if free of its grant is unused.
func (a *Account) grantState(i int, g *grant, need, free int64, when config.WhenDown, asked *asking) state {
	if !asked.late && a.book.reachable(a.usage.shared) {
		switch {
		case need <= free:
			return enough
		case asked.last, asked.answered&(1<<i) != 0 && g.known && g.left < need-free:
			return nothing
		}
		return ask
	}
	if when == config.DownLocal || when == config.DownShare && need <= free {
		return enough
	}
	return down
}

// sharesRates reports whether the account's rate and concurrency limits are shared.
func (a *Account) sharesRates() bool {
	return a.usage.shared != nil && a.limits.WhenDown != config.NoStore
}

// sharesBudget reports whether a budget of the account is shared.
func (a *Account) sharesBudget(b *config.Budget) bool {
	return a.usage.shared != nil && b.WhenDown != config.NoStore
}

// freeRates returns what is free of the grants for an account's rate and concurrency limits; math.MaxInt64 for an unset
// limit.
func (a *Account) freeRates(now time.Time) (requests, tokens, concurrent int64) {
	u, s, l := a.usage, a.usage.shared, &a.limits
	requests, tokens, concurrent = math.MaxInt64, math.MaxInt64, math.MaxInt64
	leased := now.Before(s.leased)
	free := func(limit int64, g *grant, held int64) int64 {
		switch {
		case limit == 0:
			return math.MaxInt64
		case !leased:
			return 0
		}
		return g.free(g.used, held)
	}
	return free(l.RequestsPerMinute, &s.requests.grant, 0), free(l.TokensPerMinute, &s.tokens.grant, u.reserved), free(l.Concurrent, &s.concurrent, u.inflight)
}

// checkSharedRates checks the grants for an account's limits, for a request that reserves tokens. lacks reports that
// the grants do not suffice, but the store may grant more.
func (a *Account) checkSharedRates(i int, n *Need, reserved int64, now time.Time, asked *asking) (lacks bool, e *apierror.Error) {
	if !a.sharesRates() {
		return false, nil
	}
	s := a.usage.shared
	requests, tokens, concurrent := a.freeRates(now)
	one := int64(1)
	if n.Again {
		one = 0
	}
	for _, c := range [...]struct {
		limit      LimitKind
		g          *grant
		need, free int64
	}{
		{LimitConcurrent, &s.concurrent, one, concurrent}, {LimitRequests, &s.requests.grant, one, requests}, {LimitTokens, &s.tokens.grant, reserved, tokens},
	} {
		if c.need == 0 {
			continue
		}
		switch a.grantState(i, c.g, c.need, c.free, a.limits.WhenDown, asked) {
		case ask:
			lacks = true
		case nothing:
			return false, a.rateLimited(c.limit, cmp.Or(c.g.retry, time.Second), max(c.free, 0), c.need)
		case down:
			return false, a.storeDown(LimitError{Limit: c.limit, Value: a.limit(c.limit)})
		}
	}
	return lacks, nil
}

// addWants adds what the request needs to what the next reports of the lacking scopes ask for, unless it has been added
// already.
func (h *Hold) addWants(scopes *Scopes, n *Need, now time.Time, lacks uint8, asked *asking) {
	for i, a := range scopes {
		if lacks&(1<<i) == 0 {
			continue
		}
		s := a.usage.shared
		s.active, asked.replies[i] = now, s.replies
		if asked.rounds[i] != s.round+1 {
			asked.rounds[i] = s.round + 1
			h.addWant(i, a, n, 1)
		}
	}
}

// addWant adds what the request needs in a scope to what its next report asks for, or, with a sign of -1, takes it back.
func (h *Hold) addWant(i int, a *Account, n *Need, sign int64) {
	s := a.usage.shared
	if a.sharesRates() {
		if l := &a.limits; !n.Again {
			s.requests.addWant(sign*min(l.RequestsPerMinute, 1), 1)
			s.concurrent.addWant(sign*min(l.Concurrent, 1), 1)
		}
		s.tokens.addWant(sign*h.tokens[i], h.tokens[i])
	}
	for j := range a.budgets {
		b := &a.budgets[j]
		if !a.sharesBudget(b) {
			continue
		}
		need := h.need(b, n)
		least := need
		if b.Strict {
			least = min(need, n.Fixed.Plus(tokenCost(n.PerMillion, min(MinTokens, n.MaxTokens))))
		}
		a.usage.windows[b.Per].grant.addWant(sign*int64(need), int64(least))
	}
}

// use counts a request that has reserved its need.
func (s *shared) use(n *Need, now time.Time) {
	s.active, s.dirty = now, true
	if !n.Again {
		s.requests.used++
		s.requests.recent.add(1, now)
	}
}

// settle counts the tokens that a request used.
func (s *shared) settle(tokens int64, now time.Time) {
	s.dirty = true
	s.tokens.used = saturate(s.tokens.used, tokens)
	s.tokens.recent.add(tokens, now)
}

// heldFor returns what requests in flight hold of a budget.
func (w *window) heldFor(b *config.Budget) cost.Nano {
	if b.Strict {
		return w.held
	}
	return w.estimated
}

// free returns what is free of the grant of a budget.
func (w *window) free(b *config.Budget) cost.Nano {
	return cost.Nano(w.grant.free(int64(w.spent), int64(w.heldFor(b))))
}

// report fills in a report of the scope. What the report gives back is no longer free from then on. A background report
// gives back unused grants and asks for more ahead of need; an idle scope keeps a small part of its budgets, or asks for
// it, so that it can be used while the store is down. The last report gives back everything that is not held.
func (u *usage) report(r *Report, y *syncer, zone *calendar, now time.Time, background, last bool) {
	s := u.shared
	a := s.account
	u.roll(y.storeTime(now), zone)
	r.Instance, r.Number, r.Lease = y.identity(), y.numbers.Add(1), y.lease
	if s.first == 0 {
		s.first = r.Number
	}
	r.Scope, r.First, r.Counters = a.scope, s.first, r.Counters[:0]
	r.Acknowledged = 0
	if u.drain(&a.limits, now); u.used() || s.outstanding(u) {
		r.Acknowledged = s.acknowledged
	}
	idle := background && now.Sub(s.active) >= y.lease
	p := proposal{share: y.share, background: background, ahead: background && s.dirty && !idle && !last, idle: idle, all: last}
	s.resting = idle && !u.holds()
	if a.sharesRates() {
		lapsed := p
		lapsed.all = last || idle || !now.Before(s.leased)
		if l := a.limits.RequestsPerMinute; l > 0 {
			r.Counters = append(r.Counters, s.requests.propose(Counter{Of: Requests, Limit: l, Used: s.requests.used, Level: s.requests.recent.sum(now)}, 0, &lapsed))
		}
		if l := a.limits.TokensPerMinute; l > 0 {
			r.Counters = append(r.Counters, s.tokens.propose(Counter{Of: Tokens, Limit: l, Used: s.tokens.used, Level: s.tokens.recent.sum(now)}, u.reserved, &lapsed))
		}
		if l := a.limits.Concurrent; l > 0 {
			lapsed.ahead = false
			r.Counters = append(r.Counters, s.concurrent.propose(Counter{Of: Concurrent, Limit: l}, u.inflight, &lapsed))
		}
	}
	for i := range a.budgets {
		b := &a.budgets[i]
		w := &u.windows[b.Per]
		if a.sharesBudget(b) {
			c := Counter{Of: Money, Window: Window{b.Per, w.start, w.end}, Limit: int64(b.Limit), Used: int64(w.spent)}
			r.Counters = append(r.Counters, w.grant.propose(c, int64(w.heldFor(b)), &p))
		}
	}
	s.dirty = false
	s.round++
}

// proposal determines what a report asks for and gives back.
type proposal struct {
	share      float64
	background bool // sent in the background, not on behalf of a request
	ahead      bool // ask for more before it is needed
	idle       bool // keep a small part, or ask for it
	all        bool // give back everything that is free
}

// idleShare is the part of a share that an idle scope keeps of a budget. With the default share of 2 %, ten gateways
// together keep 5 % of what is left.
const idleShare = 0.25

// part returns how much of what is left is granted at once.
func (p *proposal) part(left int64) int64 { return int64(p.share * float64(max(left, 0))) }

// scarce is the threshold, in shares of the limit, below which gateways give back what they have beyond one share of
// what is left.
const scarce = 10

// propose fills in what a counter of a report has, gives back and asks for.
func (g *grant) propose(c Counter, held int64, p *proposal) Counter {
	needed := saturate(c.Used, held)
	free := max(g.free(c.Used, held), 0)
	share := p.share
	switch {
	case p.all:
		free = 0
	case p.idle && g.want == 0:
		share *= idleShare
		if free = min(free, int64(share*float64(max(g.left+free, 0)))); free > g.left {
			free = 0
		}
	case !p.background || g.want > 0:
	case free > g.left:
		free = 0 // others need it more
	case g.left < scarce*p.part(c.Limit):
		free = min(free, p.part(g.left+free))
	}
	g.granted = saturate(needed, free)
	c.Granted, c.Share = g.granted, share
	if g.want > free {
		c.Want, c.Least = g.want-free, max(g.least-free, 1)
	} else if p.idle && !p.all && free == 0 && g.known && share*float64(g.left) >= 1 {
		c.Want, c.Least = 1, 1
	} else if p.ahead && 2*free < g.size && p.part(g.left) > 0 {
		c.Want, c.Least = 1, 1
	}
	g.want, g.least = 0, 0
	return c
}

// apply updates the scope with the store's reply to a report.
func (u *usage) apply(r *Report, reply *Reply, y *syncer, sent time.Time) {
	s := u.shared
	s.replies++
	s.acknowledged, s.lost, s.reported, s.leased = r.Number, reply.Lost, sent, sent.Add(y.lease)
	if reply.Lost {
		for i := range u.credits {
			u.credits[i].known = false
		}
	}
	for i := range r.Counters {
		if i >= len(reply.Counters) {
			return
		}
		c, has := &r.Counters[i], &reply.Counters[i]
		g, held := &s.requests.grant, int64(0)
		switch c.Of {
		case Tokens:
			g, held = &s.tokens.grant, u.reserved
		case Concurrent:
			g, held = &s.concurrent, u.inflight
		case Money:
			w := &u.windows[c.Window.Per]
			if !w.start.Equal(c.Window.Start) {
				continue
			}
			g, held = &w.grant, 0
			if !c.Window.Contains(reply.Time) {
				// If the store's clock is in an earlier window, nothing of this one can be granted yet. If it is in a
				// later one, the next report is for that.
				g.known, g.left = reply.Time.Before(c.Window.Start), 0
				continue
			}
			w.others, w.elsewhere = cost.Nano(has.Used-c.Used), cost.Nano(max(has.Taken-has.Used-(has.Granted-c.Used), 0))
			w.credit = cost.Nano(has.Credit) + u.pending(&c.Window)
		}
		g.granted = has.Granted
		g.known, g.left, g.retry = true, c.Limit+has.Credit-has.Taken, has.Retry
		g.size = max(has.Granted-c.Used-held, 0)
	}
}

// forget drops all grants after a change of identity, so that everything is reported anew.
func (u *usage) forget() {
	s := u.shared
	s.first, s.acknowledged, s.leased, s.dirty = 0, 0, time.Time{}, true
	s.requests.granted, s.tokens.granted, s.concurrent.granted = 0, 0, 0
	for p := range u.windows {
		u.windows[p].grant.granted = 0
	}
}

// holds reports whether requests in flight hold something.
func (u *usage) holds() bool {
	return u.inflight > 0 || u.reserved > 0 || slices.ContainsFunc(u.windows[:], func(w window) bool { return w.held > 0 || w.estimated > 0 })
}

// due reports whether there is something to report to the store, or to renew.
func (u *usage) due() bool {
	return u.shared.dirty || u.shared.lost || u.shared.outstanding(u) && !u.shared.resting || slices.ContainsFunc(u.credits, u.shared.account.mustSend)
}

// mustSend reports whether a credit must still be sent to the store.
func (a *Account) mustSend(c credit) bool { return !c.known && a.sharesPeriod(c.window.Per) }

// outstanding reports whether the gateway has unused grants.
func (s *shared) outstanding(u *usage) bool {
	if s.requests.granted > s.requests.used || s.tokens.granted > s.tokens.used || s.concurrent.granted > 0 {
		return true
	}
	for p := range u.windows {
		if w := &u.windows[p]; w.grant.granted > int64(w.spent) {
			return true
		}
	}
	return false
}

// used reports whether the scope has usage that a store without data would have to learn.
func (u *usage) used() bool {
	if !u.requests.Empty() || !u.tokens.Empty() {
		return true
	}
	for p := range u.windows {
		if u.windows[p].spent > 0 {
			return true
		}
	}
	return false
}

// remaining lowers r to what remains for all gateways together: what is free here, what was left as of the last reply,
// and what has drained since.
func (s *shared) remaining(u *usage, r *Remaining, now time.Time) {
	lower := func(g *grant, limit, held int64, remains *int64, reset *time.Duration) {
		if limit == 0 || !g.known {
			return
		}
		drained := float64(limit) * max(now.Sub(s.reported), 0).Minutes()
		*remains = max(0, min(*remains, max(g.left, 0)+max(g.free(g.used, held), 0)+int64(min(drained, float64(limit)))))
		used := time.Duration(float64(limit-*remains) / float64(limit) * float64(time.Minute))
		*reset = max(*reset, used.Round(time.Millisecond))
	}
	lower(&s.requests.grant, r.Limits.RequestsPerMinute, 0, &r.Requests, &r.RequestsReset)
	lower(&s.tokens.grant, r.Limits.TokensPerMinute, u.reserved, &r.Tokens, &r.TokensReset)
}

// sharesPeriod reports whether the account shares its budget of a period.
func (a *Account) sharesPeriod(per config.Period) bool {
	return slices.ContainsFunc(a.budgets, func(b config.Budget) bool { return b.Per == per && a.sharesBudget(&b) })
}

// startSharing sets up what the configuration shares. From then on, a is the account of its scope that is reported.
func (a *Account) startSharing(now time.Time) {
	a.usage.mu.Lock()
	shares := a.share(now)
	a.usage.mu.Unlock()
	if shares {
		a.announce()
	}
}

// share sets up the counters of startSharing, and reports whether anything is or was shared. The caller holds the mutex
// of the usage, and calls announce without it.
func (a *Account) share(now time.Time) bool {
	shares := a.limits.WhenDown != config.NoStore || slices.ContainsFunc(a.budgets, func(b config.Budget) bool { return b.WhenDown != config.NoStore })
	u := a.usage
	if u.shared == nil {
		if !shares {
			return false
		}
		u.shared = new(shared)
		for p := range u.windows {
			u.windows[p].remote = new(remote)
		}
		u.shared.requests.recent.add(u.requests.Level(), now)
		u.shared.tokens.recent.add(u.tokens.Level(), now)
	}
	s := u.shared
	s.account = a
	if !a.sharesRates() {
		s.requests.grant, s.tokens.grant = grant{used: s.requests.used}, grant{used: s.tokens.used}
		s.concurrent = grant{}
	}
	for p := range u.windows {
		if w := &u.windows[p]; !a.sharesPeriod(config.Period(p)) {
			*w.remote = remote{}
		}
	}
	return true
}

// announce makes the scope one of those that background reports include.
func (a *Account) announce() {
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	a.book.sharing[a.scope] = a.usage
}
