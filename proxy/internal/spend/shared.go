package spend

import (
	"context"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// Store counts what several gateways use of the same scopes. It is safe for concurrent use.
//
// It keeps, of each counter of a scope, how much each gateway was granted and how much of that it has used, as the gateway itself last
// reported them. A report says totals, so that one which is repeated, or whose reply is lost, counts once, and a store that lost its
// data has them back from the next reports. The sum of what is granted never exceeds the limit.
//
// Counters are kept apart by their kind and, of money, by the period and the start of their windows; each has its own lease.
type Store interface {
	// Sync reports what a gateway has of scopes, and asks for more: one round trip. There is one report of a scope at a time. Each reply
	// is that of the report with its index, written over what the reply was; its counters use the room that it has. After an error it
	// is unknown which reports were counted, and the next ones say it again. A report without counters only asks for the time.
	Sync(ctx context.Context, reports []Report, replies []Reply) error

	// Credit adds to the limit of a budget in a window, for all gateways, once for each ID.
	Credit(ctx context.Context, s Scope, w Window, amount cost.Nano, id string) error
}

// Report is what a gateway has of a scope.
type Report struct {
	Scope    Scope
	Instance string        // the identity of the gateway
	Lease    time.Duration // for how long what is granted is kept for the gateway unless it reports again

	// Number is greater than that of each earlier report of the gateway about the scope. The store ignores a report whose number is not
	// above that of the last one.
	Number int64

	// First identifies the count of which Used of rates is: the process of the gateway, in effect. Once it differs from that of the last
	// report, Used of rates begins at 0 again, and what was granted before and not reported as used is lost to the gateway.
	First int64

	// Acknowledged is the number of the last report with this First that was answered; 0: none, or the gateway has nothing that a store
	// would have to know. A store whose last number of the gateway is lower has lost data.
	Acknowledged int64

	Counters []Counter
}

// CounterKind is what a Counter counts.
type CounterKind uint8

// The kinds of counters.
const (
	Money      CounterKind = iota // nano-dollars in a window
	Requests                      // a minute
	Tokens                        // a minute
	Concurrent                    // requests in flight
)

// Window is a window of a period, by the clock of the store. That of config.PerTotal has neither start nor end.
type Window struct {
	Per        config.Period
	Start, End time.Time
}

// Contains reports whether a time is in the window.
func (w *Window) Contains(at time.Time) bool {
	return w.Per == config.PerTotal || !at.Before(w.Start) && at.Before(w.End)
}

// Counter is what a gateway has of one counter, and how much more it wants of it.
type Counter struct {
	Of     CounterKind
	Window Window // of money; a store ignores a counter of a window that does not contain its own time
	Limit  int64

	// Granted is all that the gateway was granted and has not given back, with what it has used. Used is what it has used of it: of money
	// in this window, of rates since First, of concurrent requests always 0. Granted is not less than Used.
	Granted, Used int64

	// Want is how much more is wanted, and Least the least of it that helps: the store grants nothing if less is left. 0: nothing.
	Want, Least int64

	// Share is the share of what is left that may be granted at once where that is more than Want.
	Share float64

	// Level is at least how much of a rate the gateway alone has used in the last minute. The store adds it to its level for a gateway that
	// it has no record of, or an old one, and no more than it for one whose lease has expired.
	Level int64
}

// Reply is what the store has of a scope.
type Reply struct {
	Time time.Time // of the store

	// Stale says that the report was ignored. Number is then that of the report after which it came too late.
	Stale  bool
	Number int64

	// Lost says that the store has lost data, and that nothing is granted for as long as Recovery, in which all gateways report what they
	// have: they report something each second, and everything once they read this.
	Lost bool

	Counters []Granted // in the order of the report's; none if the report was ignored
}

// Recovery is how long a store that has lost data grants nothing.
const Recovery = 3 * time.Second

// Granted is what the store has of a counter after a report. That of an ignored counter is the zero value.
type Granted struct {
	Granted int64 // what the gateway has: what it reported, and what it was granted now
	Taken   int64 // of the limit and its credit, by all gateways: granted, and of a rate the level besides
	Used    int64 // of money: by all gateways, with all that was granted to those whose lease has expired
	Credit  int64 // by which the limit is raised

	Retry time.Duration // of a rate, if nothing was granted: until Least may be left; 0: unknown
}
