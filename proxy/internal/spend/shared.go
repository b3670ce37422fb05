package spend

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// Store counts what several gateways use of the same scopes. It is safe for concurrent use.
//
// For each counter of a scope, it stores how much each gateway was granted and how much of that it has used, as last
// reported by that gateway. Reports contain totals. A report that is repeated, or whose reply is lost, therefore counts
// once, and a store that has lost its data regains it from the next reports. The grants together never exceed the
// limit.
//
// A counter is identified by its kind and, for money, by the period and start of its window. Each has its own lease.
type Store interface {
	// Sync reports what a gateway has used and been granted of some scopes, and asks for more, in one round trip. At
	// most one report of a scope is in flight at a time. replies[i] is overwritten with the reply to reports[i]; the
	// capacity of its Counters is reused. After an error it is unknown which reports were counted; the next ones repeat
	// them. A report without counters only asks for the time.
	Sync(ctx context.Context, reports []Report, replies []Reply) error

	// Credit raises the limit of a budget in a window, for all gateways. It has an effect only once for each ID.
	Credit(ctx context.Context, s Scope, w Window, amount cost.Nano, id string) error
}

// Report is what a gateway has used and been granted of a scope.
type Report struct {
	Scope    Scope
	Instance string        // identity of the gateway
	Lease    time.Duration // how long the grants stay reserved for the gateway unless it reports again

	// Number increases with each report of the gateway about the scope. The store ignores a report whose number is not
	// above that of the last one.
	Number int64

	// First identifies the series of counts that Used of a rate belongs to, in effect the process of the gateway. If it
	// differs from that of the last report, Used of rates has restarted at 0, and earlier grants that were not reported
	// as used are lost to the gateway.
	First int64

	// Acknowledged is the number of the last report with this First that received a reply. It is 0 if there is none, or
	// if the gateway has nothing that the store would need to know. A store that knows only a lower number of the
	// gateway has lost data.
	Acknowledged int64

	Counters []Counter
}

// CounterKind is the resource that a Counter counts.
type CounterKind uint8

// The kinds of counters.
const (
	Money      CounterKind = iota // nano-dollars in a window
	Requests                      // requests per minute
	Tokens                        // tokens per minute
	Concurrent                    // requests in flight
)

// Window is a window of a period, by the store's clock. The window of config.PerTotal has neither start nor end.
type Window struct {
	Per        config.Period
	Start, End time.Time
}

// Contains reports whether the window contains a time.
func (w *Window) Contains(at time.Time) bool {
	return w.Per == config.PerTotal || !at.Before(w.Start) && at.Before(w.End)
}

// Counter is what a gateway has used and been granted of one counter, and how much more it wants.
type Counter struct {
	Of     CounterKind
	Window Window // only for money; the store ignores the counter if its own time is not in the window
	Limit  int64

	// Granted is everything that the gateway was granted and has not given back, including what it has used. Used is
	// what it has used: of money in this window, of rates since First, and of concurrent requests always 0. Granted is
	// at least Used.
	Granted, Used int64

	// Want is how much more the gateway wants, 0 for nothing. If less than Least is left, the store grants nothing.
	Want, Least int64

	// Share is the fraction of what is left that the store may grant at once if that is more than Want.
	Share float64

	// Level is an upper bound of how much of a rate this gateway has used in the last minute. The store adds Level to
	// its own level if it has no record of the gateway, or an outdated one. If the gateway's lease has expired, it adds
	// at most Level.
	Level int64
}

// Reply is the store's reply to a Report.
type Reply struct {
	Time time.Time // by the store's clock

	// Stale reports that the report was ignored because the store already has one with the same or a higher number,
	// which is then in Number.
	Stale  bool
	Number int64

	// Lost reports that the store has lost data. It then grants nothing for the duration of Recovery, in which all
	// gateways report what they have: they report something every second, and everything as soon as they receive this.
	Lost bool

	// Err is set if the store cannot count this scope, because its data is damaged; the error is ErrDamaged and names the
	// key. It says nothing about other scopes. As after an error of Sync, it is unknown whether the report was counted.
	Err error

	Counters []Granted // in the order of the report's counters; empty if the report was ignored
}

// ErrDamaged is the error for data in the store that is not what a gateway has written there.
var ErrDamaged = errors.New("damaged data in the store")

// Recovery is how long a store grants nothing after it has lost data.
const Recovery = 3 * time.Second

// Granted is the state of a counter in the store after a report. It is the zero value for an ignored counter.
type Granted struct {
	Granted int64 // what the gateway has: what it reported, plus what it was granted now
	Taken   int64 // how much of the limit and its credit all gateways have: the grants and, for a rate, also the level
	Used    int64 // for money, what all gateways have used, where grants with an expired lease count as used
	Credit  int64 // by how much the limit is raised

	Retry time.Duration // for a rate of which nothing was granted, the time until Least may be left; 0 if unknown
}
