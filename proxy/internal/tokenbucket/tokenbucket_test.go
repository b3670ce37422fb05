package tokenbucket_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/tokenbucket"
)

var start = time.Date(2026, 11, 4, 12, 0, 0, 0, time.UTC)

// TestBucket shows a bucket over time: each step drains it up to a time, adds uses, and checks what it reports.
func TestBucket(t *testing.T) {
	type step struct {
		at        time.Duration
		limit     int64
		add       int64
		level     int64 // uses that have not drained
		remaining int64
		wait      time.Duration // for one more use
		reset     time.Duration
	}
	for name, steps := range map[string][]step{
		"unused": {
			{0, 60, 0, 0, 60, 0, 0},
		},
		"one use a second drains": {
			{0, 60, 60, 60, 0, time.Second, time.Minute},
			{time.Second, 60, 0, 59, 1, 0, 59 * time.Second},
			{59 * time.Second, 60, 0, 1, 59, 0, time.Second},
			{time.Minute, 60, 0, 0, 60, 0, 0},
		},
		"part of a use counts as a use, and remains unavailable": {
			{0, 60, 10, 10, 50, 0, 10 * time.Second},
			{time.Millisecond, 60, 0, 10, 50, 0, 9999 * time.Millisecond},
			{999 * time.Millisecond, 60, 0, 10, 50, 0, 9001 * time.Millisecond},
		},
		"usage above the limit is a debt": {
			{0, 60, 120, 120, 0, 61 * time.Second, 2 * time.Minute},
			{time.Minute, 60, 0, 60, 0, time.Second, time.Minute},
			{61 * time.Second, 60, 0, 59, 1, 0, 59 * time.Second},
		},
		"an idle bucket saves nothing up": {
			{0, 60, 1, 1, 59, 0, time.Second},
			{time.Hour, 60, 61, 61, 0, 2 * time.Second, 61 * time.Second},
		},
		"a time in the past drains nothing": {
			{time.Second, 60, 30, 30, 30, 0, 30 * time.Second},
			{0, 60, 0, 30, 30, 0, 30 * time.Second},
			{2 * time.Second, 60, 0, 29, 31, 0, 29 * time.Second},
		},
		"a changed limit keeps the level": {
			{0, 60, 60, 60, 0, time.Second, time.Minute},
			{0, 120, 0, 60, 60, 0, 30 * time.Second},
			{time.Second, 120, 0, 58, 62, 0, 29 * time.Second},
			{time.Second, 30, 0, 58, 0, 58 * time.Second, 116 * time.Second},
		},
		"times are rounded up to a millisecond": {
			{0, 7, 7, 7, 0, 8572 * time.Millisecond, time.Minute},
			{time.Microsecond, 7, 0, 7, 0, 8572 * time.Millisecond, time.Minute},
		},
	} {
		var b tokenbucket.Bucket
		for i, s := range steps {
			b.Drain(s.limit, start.Add(s.at))
			b.Add(s.add)
			got := step{s.at, s.limit, s.add, b.Level(), b.Remaining(s.limit), b.Wait(1, s.limit), b.Reset(s.limit)}
			if got != s {
				t.Errorf("%s, step %d:\n got %+v\nwant %+v", name, i, got, s)
			}
			if b.Empty() != (s.level == 0) {
				t.Errorf("%s, step %d: empty %v at level %d", name, i, b.Empty(), s.level)
			}
		}
	}
}

// TestRestoredUsesHaveNotDrained checks that uses of the last minute count in full after a restart.
func TestRestoredUsesHaveNotDrained(t *testing.T) {
	var b tokenbucket.Bucket
	b.Restore(30, start)
	b.Restore(20, start)
	b.Drain(60, start)
	if b.Level() != 50 || b.Remaining(60) != 10 || b.Wait(11, 60) != time.Second {
		t.Errorf("level %d, remaining %d, wait %v", b.Level(), b.Remaining(60), b.Wait(11, 60))
	}
	b.Drain(60, start.Add(10*time.Second))
	if b.Level() != 40 {
		t.Errorf("level %d after 10 s, want 40", b.Level())
	}
}

// TestHugeUsesDoNotOverflow checks that an absurd count fills the bucket for a very long time, and does not empty it.
func TestHugeUsesDoNotOverflow(t *testing.T) {
	for _, limit := range []int64{1, 1_000_000, 1 << 36} {
		var b tokenbucket.Bucket
		b.Drain(limit, start)
		for range 10 {
			b.Add(math.MaxInt64)
		}
		if b.Level() < 1<<36 || b.Remaining(limit) != 0 || b.Wait(math.MaxInt64, limit) < time.Minute || b.Reset(limit) < time.Minute {
			t.Errorf("limit %d: level %d, remaining %d, wait %v, reset %v", limit, b.Level(), b.Remaining(limit), b.Wait(math.MaxInt64, limit), b.Reset(limit))
		}
	}
}

// TestDrainingKeepsFractions checks that draining often loses no part of a microsecond.
func TestDrainingKeepsFractions(t *testing.T) {
	const perMicrosecond = int64(time.Minute / time.Microsecond) // the limit of which one use drains in a microsecond
	var b tokenbucket.Bucket
	b.Drain(perMicrosecond, start)
	b.Add(perMicrosecond)
	for i := range 1000 {
		b.Drain(perMicrosecond, start.Add(time.Duration(i+1)*1500*time.Nanosecond))
	}
	if got, want := b.Level(), perMicrosecond-1500; got != want {
		t.Errorf("level %d after 1,500 µs, want %d", got, want)
	}
}

// TestDrainingOftenDrainsTheSame checks that the level depends on the time and not on how often the bucket was drained.
func TestDrainingOftenDrainsTheSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Int64Range(1, 1_000_000).Draw(rt, "limit")
		uses := rapid.Int64Range(1, 1_000_000).Draw(rt, "uses")
		var often, once tokenbucket.Bucket
		for _, b := range []*tokenbucket.Bucket{&often, &once} {
			b.Drain(limit, start)
			b.Add(uses)
		}
		now := start
		for _, ns := range rapid.SliceOfN(rapid.Int64Range(0, int64(10*time.Second)), 1, 10).Draw(rt, "steps") {
			now = now.Add(time.Duration(ns))
			often.Drain(limit, now)
		}
		once.Drain(limit, now)
		if often.Level() != once.Level() || often.Reset(limit) != once.Reset(limit) {
			rt.Fatalf("drained often: %d, once: %d", often.Level(), once.Level())
		}
		if wait := once.Wait(1, limit); wait > 0 {
			once.Drain(limit, now.Add(wait))
			if once.Remaining(limit) < 1 {
				rt.Fatalf("nothing remains after the wait of %v", wait)
			}
		}
	})
}
