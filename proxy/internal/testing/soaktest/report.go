package soaktest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Sample is what a gateway took of the machine at one time.
type Sample struct {
	At          time.Duration // since the load began
	RSS         int64
	Goroutines  int // 0: not looked at
	Descriptors int
}

// Noticed is how long it took until the provider knew that a client had gone while it was thinking.
func (r *Run) Noticed() string { return r.noticed.String() }

// Header is the first line of the table that Row continues.
const Header = "   time  requests  streams  in flight  not answered                                     RSS MB  goroutines  descriptors  first text"

// Row is the line of a moment: what became of the requests so far, and what the gateway takes.
func (r *Run) Row(s Sample) string {
	return fmt.Sprintf("%7s  %8d  %7d  %9d  %-48s %6.1f  %10d  %11d  %s", s.At.Round(time.Second), r.begun.Load(), r.streams.Load(), r.open.Load(),
		r.unanswered(), float64(s.RSS)/(1<<20), s.Goroutines, s.Descriptors, &r.latency)
}

// unanswered is how many requests were not answered, by class, in few letters.
func (r *Run) unanswered() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	left, classes := 0, map[string]int{}
	for class, n := range r.tally {
		switch {
		case class == "answered":
		case class == "left":
			left = n
		case strings.HasPrefix(class, "upstream_"), class == "overloaded", class == "rate_limit_exceeded":
			classes["provider"] += n
		case strings.HasPrefix(class, "plugin_"):
			classes["plugin"] += n
		case class == "unreadable":
			classes["BROKEN"] += n
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

// Tally is how the requests ended, a class a line.
func (r *Run) Tally() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, class := range slices.Sorted(maps.Keys(r.tally)) {
		fmt.Fprintf(&b, "  %8d  %s\n", r.tally[class], class)
	}
	return b.String()
}

// Growth is by how much the memory of the second half of a run grows from its beginning to its end, by least squares, and
// what it is in the mean.
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
