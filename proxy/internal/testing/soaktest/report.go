package soaktest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Sample is a gateway's resource usage at one time.
type Sample struct {
	At          time.Duration // since the start of the load
	RSS         int64
	Goroutines  int // 0 if not measured
	Descriptors int
}

// DisconnectLatency formats the times until the provider's connection was closed after a client disconnected while
// waiting.
func (r *Run) DisconnectLatency() string { return r.disconnectLatency.String() }

// Header is the heading of the table whose rows Row returns.
const Header = "   time  requests  streams  in flight  incomplete                                       RSS MB  goroutines  descriptors  first text"

// Row returns a row of the table: the requests so far, and the gateway's resource usage.
func (r *Run) Row(s Sample) string {
	return fmt.Sprintf("%7s  %8d  %7d  %9d  %-48s %6.1f  %10d  %11d  %s", s.At.Round(time.Second), r.sent.Load(), r.streams.Load(), r.inFlight.Load(),
		r.formatIncomplete(), float64(s.RSS)/(1<<20), s.Goroutines, s.Descriptors, &r.latency)
}

// formatIncomplete formats the numbers of requests without a complete response, by class.
func (r *Run) formatIncomplete() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	left, classes := 0, map[string]int{}
	for outcome, n := range r.outcomes {
		switch {
		case outcome == outcomeComplete:
		case outcome == outcomeDisconnected:
			left = n
		case strings.HasPrefix(outcome, "upstream_"), outcome == "overloaded", outcome == "rate_limit_exceeded":
			classes["provider"] += n
		case strings.HasPrefix(outcome, "plugin_"):
			classes["plugin"] += n
		case outcome == outcomeInvalid:
			classes["INVALID"] += n
		default:
			classes["client"] += n
		}
	}
	parts := []string{fmt.Sprintf("%d left", left)}
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		parts = append(parts, fmt.Sprintf("%d %s", classes[class], class))
	}
	return strings.Join(parts, ", ")
}

// Outcomes formats the numbers of requests by outcome, one per line.
func (r *Run) Outcomes() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, outcome := range slices.Sorted(maps.Keys(r.outcomes)) {
		fmt.Fprintf(&b, "  %8d  %s\n", r.outcomes[outcome], outcome)
	}
	return b.String()
}

// Growth returns the growth of the memory in the second half of a run, by linear regression, and its mean.
func Growth(all []Sample) (bytes, mean int64) {
	half := all[len(all)/2:]
	if len(half) < 2 {
		return 0, 0
	}
	var t, y, tt, ty float64
	for _, s := range half {
		t += s.At.Seconds()
		y += float64(s.RSS)
		tt += s.At.Seconds() * s.At.Seconds()
		ty += s.At.Seconds() * float64(s.RSS)
	}
	n := float64(len(half))
	slope := (n*ty - t*y) / (n*tt - t*t)
	return int64(slope * (half[len(half)-1].At - half[0].At).Seconds()), int64(y / n)
}
