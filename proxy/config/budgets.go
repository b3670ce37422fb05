package config

import (
	"slices"
	"strings"
	"time"
)

// Limits are the rate limits of a key, team, model or provider; 0 is unlimited.
type Limits struct {
	RequestsPerMinute int64
	TokensPerMinute   int64
	Concurrent        int64 // requests in flight
}

// Budget bounds what a key, team, model or provider spends in each window of a period.
type Budget struct {
	Limit  int64   // nano-dollars
	Per    Period  // no two budgets of a scope have the same
	Warn   float64 // share of Limit at which a warning is logged, 0 to 1; 0: none
	Strict bool    // a request holds the most that it can cost, else an estimate
}

// Period is the length of a budget's windows, which are those of the calendar in Store.Zone.
type Period uint8

// The periods, from the shortest. PerTotal has one window, without an end.
const (
	PerMinute Period = iota
	PerHour
	PerDay
	PerWeek // from Monday
	PerMonth
	PerTotal

	Periods = int(PerTotal) + 1 // how many there are
)

var periodNames = []string{"minute", "hour", "day", "week", "month", "total"}

// String returns the period's name in the configuration.
func (p Period) String() string { return periodNames[p] }

// ParsePeriod returns the period of that name.
func ParsePeriod(name string) (Period, bool) {
	i := slices.Index(periodNames, name)
	return Period(max(i, 0)), i >= 0
}

// Window returns the window of the period that a time is in. The one without an end ends at the zero time.
func (p Period) Window(at time.Time, zone *time.Location) (start, end time.Time) {
	at = at.In(zone)
	year, month, day := at.Date()
	switch p {
	case PerMinute:
		// Offsets of zones are whole minutes since 1972, and those of hours need not be whole hours.
		start = at.Truncate(time.Minute)
		return start, start.Add(time.Minute)
	case PerHour:
		start = at.Add(-time.Duration(at.Minute())*time.Minute - time.Duration(at.Second())*time.Second - time.Duration(at.Nanosecond()))
		return start, start.Add(time.Hour)
	case PerDay:
		return time.Date(year, month, day, 0, 0, 0, 0, zone), time.Date(year, month, day+1, 0, 0, 0, 0, zone)
	case PerWeek:
		monday := day - (int(at.Weekday())+6)%7
		return time.Date(year, month, monday, 0, 0, 0, 0, zone), time.Date(year, month, monday+7, 0, 0, 0, 0, zone)
	case PerMonth:
		return time.Date(year, month, 1, 0, 0, 0, 0, zone), time.Date(year, month+1, 1, 0, 0, 0, 0, zone)
	}
	return time.Time{}, time.Time{}
}

// maxBudget is the largest budget, in US dollars: Redis counts nano-dollars exactly up to 2^53.
const maxBudget = 9_000_000

// nanoPerDollar is how many nano-dollars make a US dollar.
const nanoPerDollar = 1_000_000_000

// limits reads a table of rate limits.
func (t *table) limits() Limits {
	limits := t.table("limits")
	defer limits.finish()
	return Limits{
		RequestsPerMinute: limits.integer("requests_per_minute", 0, 1, maxLimit),
		TokensPerMinute:   limits.integer("tokens_per_minute", 0, 1, maxLimit),
		Concurrent:        limits.integer("concurrent", 0, 1, maxLimit),
	}
}

// budgets reads an array of budgets.
func (t *table) budgets() []Budget {
	var out []Budget
	for _, t := range t.tables("budgets") {
		b := Budget{Limit: t.dollars("usd")}
		if name, n := t.required("per"); n != nil {
			var ok bool
			if b.Per, ok = ParsePeriod(name); !ok {
				t.fail(n, "per", "%s is invalid: want %s%s", show(n), alternatives(periodNames), suggest(name, periodNames))
			} else if slices.ContainsFunc(out, func(o Budget) bool { return o.Per == b.Per }) {
				t.fail(n, "per", "there is already a budget per %s", b.Per)
			}
		}
		b.Warn = t.share("warn", 0)
		b.Strict = t.bool("strict", true)
		t.finish()
		for _, o := range out {
			// A budget that another one keeps from ever being reached is a mistake in one of the two.
			longer, shorter := &b, &o
			if o.Per > b.Per {
				longer, shorter = &o, &b
			}
			if b.Limit > 0 && o.Limit > 0 && o.Per != b.Per && longer.Limit < shorter.Limit {
				t.fail(t.look("usd"), "usd", "the budget per %s is smaller than that per %s, which can never apply", longer.Per, shorter.Per)
			}
		}
		out = append(out, b)
	}
	return out
}

// dollars returns a positive amount of US dollars in nano-dollars, exactly as it is written.
func (t *table) dollars(name string) int64 {
	n := t.look(name)
	if n == nil && !t.has(name) {
		t.fail(nil, name, "is missing")
	}
	if n == nil || n.kind == kindBroken {
		return 0
	}
	var nano int64
	ok := true
	switch n.kind {
	case kindInteger:
		nano = min(max(n.number, 0), maxBudget+1) * nanoPerDollar
	case kindFloat:
		nano, ok = parseNano(n.text)
	case kindString: // of a variable
		nano, ok = parseNano(n.text)
	default:
		t.fail(n, name, "must be a number, not %s", n.kind.named())
		return 0
	}
	switch {
	case !ok:
		t.fail(n, name, "must be an amount of US dollars such as 20 or 0.5, with at most 9 decimals")
		return 0
	case nano <= 0 || nano > maxBudget*nanoPerDollar:
		t.fail(n, name, "must be more than 0 and at most %d US dollars", maxBudget)
		return 0
	}
	return nano
}

// parseNano parses a decimal number of US dollars.
func parseNano(s string) (nano int64, ok bool) {
	whole, fraction, point := strings.Cut(strings.ReplaceAll(s, "_", ""), ".")
	if whole == "" || point && fraction == "" || len(fraction) > 9 || len(whole) > 9 {
		return 0, false
	}
	for _, c := range []byte(whole + fraction + "000000000"[len(fraction):]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		nano = 10*nano + int64(c-'0')
	}
	return nano, true
}
