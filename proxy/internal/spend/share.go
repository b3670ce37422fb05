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

// shared is what a gateway has of the counters of a scope that it shares with others. The mutex of its usage guards it. What it has of
// money is in the windows of the usage.
type shared struct {
	account    *Account // of the latest configuration: its limits are those that are reported
	requests   grant
	tokens     grant
	concurrent grant

	leased time.Time // until when what is granted of rates and concurrent requests may be used
	active time.Time // when a request used the scope last
	dirty  bool      // something was used since the last report
	lost   bool      // the store has lost data, and grants nothing yet

	first, acknowledged int64 // as in Report
	reported            time.Time
	done                chan struct{} // closed at the end of the report that is under way; nil: none is
	round               int           // how many reports there were
}

// grant is what a gateway was granted of one counter.
type grant struct {
	granted int64 // with what is used of it
	used    int64 // of rates
	recent  recent
	size    int64 // how much was free after the last reply

	known bool          // there was a reply
	left  int64         // by the last reply, for all gateways
	retry time.Duration // until what was wanted may be left, by the last reply; 0: unknown

	want  int64 // what the waiting requests need together
	least int64 // the least of it with which one of them can do
}

// recent is how much of a rate was used in the last minute, and up to ten seconds before. It bounds what is used whatever other gateways
// use: a level that they all have drains once, and not once for each of them.
type recent struct {
	uses [7]int64
	slot int64 // the latest, of ten seconds
}

// add adds uses. Times may go back a little.
func (r *recent) add(uses int64, now time.Time) {
	r.advance(now)
	i := r.slot % int64(len(r.uses))
	r.uses[i] = saturate(r.uses[i], uses)
}

// advance forgets what is older than a minute.
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

// free returns what is left of a grant. Where all gateways have more than the limit, which was lowered, or was passed while the store could
// not be reached, each has that much less.
func (g *grant) free(used, held int64) int64 { return g.granted - used - held + min(g.left, 0) }

// ask has the next report ask for what a request needs, if it is not free: least is the part of need with which it can do.
func (g *grant) ask(need, least, free int64) {
	if need <= free {
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

// asking is what a request has asked the store for so far.
type asking struct {
	answered uint8      // accounts about which the store was asked: no more is left than it said
	rounds   [kinds]int // the number of the report that asks for what the request needs, from 1; 0: none does
	last     bool       // it has asked often enough
}

// state is whether a request may use a counter that is shared.
type state uint8

const (
	enough  state = iota // enough of it is granted
	ask                  // the store may have more
	nothing              // no more is to be had
	down                 // the store cannot be asked, and not enough is granted
)

// stateOf says what becomes of a request that needs so much of a counter of which so much is free.
func (a *Account) stateOf(i int, g *grant, need, free int64, when config.WhenDown, asked *asking) state {
	if a.book.reachable(a.usage.shared) {
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

// sharesRates reports whether the account's limits are shared.
func (a *Account) sharesRates() bool {
	return a.usage.shared != nil && a.limits.WhenDown != config.NoStore
}

// sharesBudget reports whether a budget of the account is shared.
func (a *Account) sharesBudget(b *config.Budget) bool {
	return a.usage.shared != nil && b.WhenDown != config.NoStore
}

// rates are what is free of the shared limits of an account, math.MaxInt64 of what has none.
func (a *Account) freeRates(now time.Time) (requests, tokens, concurrent int64) {
	u, s, l := a.usage, a.usage.shared, &a.limits
	requests, tokens, concurrent = math.MaxInt64, math.MaxInt64, math.MaxInt64
	leased := now.Before(s.leased)
	of := func(limit int64, g *grant, held int64) int64 {
		switch {
		case limit == 0:
			return math.MaxInt64
		case !leased:
			return 0
		}
		return g.free(g.used, held)
	}
	return of(l.RequestsPerMinute, &s.requests, 0), of(l.TokensPerMinute, &s.tokens, u.reserved), of(l.Concurrent, &s.concurrent, u.inflight)
}

// checkSharedRates checks what the account was granted of its rates for a request that reserves so many tokens. It reports whether the store
// may grant what lacks.
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
		{LimitConcurrent, &s.concurrent, one, concurrent}, {LimitRequests, &s.requests, one, requests}, {LimitTokens, &s.tokens, reserved, tokens},
	} {
		if c.need == 0 {
			continue
		}
		switch a.stateOf(i, c.g, c.need, c.free, a.limits.WhenDown, asked) {
		case ask:
			lacks = true
		case nothing:
			return false, a.rateLimited(c.limit, cmp.Or(c.g.retry, time.Second), max(c.free, 0), c.need)
		case down:
			return false, a.storeDown()
		}
	}
	return lacks, nil
}

// ask has the next reports of the scopes ask for what the request needs of them, unless they do already.
func (h *Hold) ask(scopes *Scopes, n *Need, now time.Time, lacks uint8, asked *asking) {
	for i, a := range scopes {
		if lacks&(1<<i) == 0 {
			continue
		}
		s := a.usage.shared
		s.active = now
		if asked.rounds[i] == s.round+1 {
			continue
		}
		asked.rounds[i] = s.round + 1
		if a.sharesRates() {
			requests, tokens, concurrent := a.freeRates(now)
			if !n.Again {
				s.requests.ask(1, 1, requests)
				s.concurrent.ask(1, 1, concurrent)
			}
			s.tokens.ask(h.tokens[i], h.tokens[i], tokens)
		}
		for j := range a.budgets {
			b := &a.budgets[j]
			if !a.sharesBudget(b) {
				continue
			}
			w := &a.usage.windows[b.Per]
			need := h.need(b, n)
			least := need
			if b.Strict {
				least = min(need, n.Fixed.Plus(costOf(n.PerMillion, min(MinTokens, n.MaxTokens))))
			}
			w.grant.ask(int64(need), int64(least), int64(w.free(b)))
		}
	}
}

// use counts a request that has reserved what it needs.
func (s *shared) use(n *Need, now time.Time) {
	s.active, s.dirty = now, true
	if !n.Again {
		s.requests.used++
		s.requests.recent.add(1, now)
	}
}

// settle counts the tokens that a request has used.
func (s *shared) settle(tokens int64, now time.Time) {
	s.dirty = true
	s.tokens.used = saturate(s.tokens.used, tokens)
	s.tokens.recent.add(tokens, now)
}

// heldOf returns what requests in flight hold of a budget.
func (w *window) heldOf(b *config.Budget) cost.Nano {
	if b.Strict {
		return w.held
	}
	return w.estimated
}

// free returns what is free of what was granted of a budget.
func (w *window) free(b *config.Budget) cost.Nano {
	return cost.Nano(w.grant.free(int64(w.spent), int64(w.heldOf(b))))
}

// report writes what the gateway has of the scope into a report. Once it has, what it gives back is no longer free. A background report
// gives back what nobody uses, and asks for more ahead of need; the last one gives back all that is not held.
func (u *usage) report(r *Report, y *syncer, zone *time.Location, now time.Time, background, last bool) {
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
	idle := last || background && now.Sub(s.active) >= y.lease
	p := proposal{share: y.share, background: background, ahead: background && s.dirty && !idle, idle: idle}
	if a.sharesRates() {
		lapsed := p
		lapsed.idle = idle || !now.Before(s.leased)
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
			r.Counters = append(r.Counters, w.grant.propose(c, int64(w.heldOf(b)), &p))
		}
	}
	s.dirty = false
	s.round++
}

// proposal is how a report treats what is free.
type proposal struct {
	share      float64
	background bool // nobody waits for more than what is wanted
	ahead      bool // ask for more before it is needed
	idle       bool // give back all that is free
}

// part returns the share of what is left that is granted at once.
func (p *proposal) part(left int64) int64 { return int64(p.share * float64(max(left, 0))) }

// scarce is how many shares of a limit are left when gateways give back what they have more than a share of.
const scarce = 10

// propose completes a counter of a report.
func (g *grant) propose(c Counter, held int64, p *proposal) Counter {
	needed := saturate(c.Used, held)
	free := max(g.free(c.Used, held), 0)
	switch {
	case p.idle:
		free = 0
	case !p.background || g.want > 0:
	case free > g.left:
		free = 0 // others need it more
	case g.left < scarce*p.part(c.Limit):
		free = min(free, p.part(g.left+free))
	}
	g.granted = saturate(needed, free)
	c.Granted, c.Share = g.granted, p.share
	if g.want > free {
		c.Want, c.Least = g.want-free, max(g.least-free, 1)
	} else if p.ahead && 2*free < g.size && p.part(g.left) > 0 {
		c.Want, c.Least = 1, 1
	}
	g.want, g.least = 0, 0
	return c
}

// apply takes over what the store replied to a report.
func (u *usage) apply(r *Report, reply *Reply, y *syncer, sent time.Time) {
	s := u.shared
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
		g, held := &s.requests, int64(0)
		switch c.Of {
		case Tokens:
			g, held = &s.tokens, u.reserved
		case Concurrent:
			g, held = &s.concurrent, u.inflight
		case Money:
			w := &u.windows[c.Window.Per]
			if !w.start.Equal(c.Window.Start) {
				continue
			}
			g, held = &w.grant, 0
			if !c.Window.Contains(reply.Time) {
				// The store is in an earlier window: nothing of this one is to be had yet. That it is in a later one is known by now.
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

// forget makes everything be counted anew, under another identity: what is granted is no more than what is used and held.
func (u *usage) forget() {
	s := u.shared
	s.first, s.acknowledged, s.leased, s.dirty = 0, 0, time.Time{}, true
	s.requests.granted, s.tokens.granted, s.concurrent.granted = 0, 0, 0
	for p := range u.windows {
		u.windows[p].grant.granted = 0
	}
}

// due reports whether there is something to tell the store, or to renew.
func (u *usage) due() bool {
	return u.shared.dirty || u.shared.lost || u.shared.outstanding(u) || slices.ContainsFunc(u.credits, u.shared.account.owes)
}

// owes reports whether the store is to be told of a credit.
func (a *Account) owes(c credit) bool { return !c.known && a.sharesPeriod(c.window.Per) }

// outstanding reports whether the gateway has something that it has not used.
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

// used reports whether a store that lost its data would miss something.
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

// remaining lowers what remains of the account's rates to what remains for all gateways: what is free here, and what was left by the last
// reply, with what has drained since.
func (s *shared) remaining(u *usage, r *Remaining, now time.Time) {
	of := func(g *grant, limit, held int64, remains *int64, reset *time.Duration) {
		if limit == 0 || !g.known {
			return
		}
		drained := float64(limit) * max(now.Sub(s.reported), 0).Minutes()
		*remains = max(0, min(*remains, max(g.left, 0)+max(g.free(g.used, held), 0)+int64(min(drained, float64(limit)))))
		used := time.Duration(float64(limit-*remains) / float64(limit) * float64(time.Minute))
		*reset = max(*reset, used.Round(time.Millisecond))
	}
	of(&s.requests, r.Limits.RequestsPerMinute, 0, &r.Requests, &r.RequestsReset)
	of(&s.tokens, r.Limits.TokensPerMinute, u.reserved, &r.Tokens, &r.TokensReset)
}

// sharesPeriod reports whether the account shares its budget of a period.
func (a *Account) sharesPeriod(per config.Period) bool {
	return slices.ContainsFunc(a.budgets, func(b config.Budget) bool { return b.Per == per && a.sharesBudget(&b) })
}

// share shares what is configured so. The account is that of the latest configuration.
func (a *Account) share(now time.Time) {
	shares := a.limits.WhenDown != config.NoStore || slices.ContainsFunc(a.budgets, func(b config.Budget) bool { return b.WhenDown != config.NoStore })
	u := a.usage
	u.mu.Lock()
	if u.shared == nil {
		if !shares {
			u.mu.Unlock()
			return
		}
		u.shared = new(shared)
		u.shared.requests.recent.add(u.requests.Level(), now)
		u.shared.tokens.recent.add(u.tokens.Level(), now)
	}
	s := u.shared
	s.account = a
	if !a.sharesRates() {
		s.requests, s.tokens = grant{used: s.requests.used, recent: s.requests.recent}, grant{used: s.tokens.used, recent: s.tokens.recent}
		s.concurrent = grant{}
	}
	for p := range u.windows {
		if w := &u.windows[p]; !a.sharesPeriod(config.Period(p)) {
			w.grant, w.others, w.elsewhere = grant{}, 0, 0
		}
	}
	u.mu.Unlock()
	a.book.mu.Lock()
	a.book.sharing[a.scope] = u
	a.book.mu.Unlock()
}
