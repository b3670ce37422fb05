package plugin

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// The rate of a plugin's log lines: a burst, then so many a second. Lines beyond it are counted and dropped.
const (
	logBurst  = 20
	logPerSec = 5
)

// guestLog passes on the log lines of one plugin, if they were asked for, at a bounded rate. A line may hold what a
// plugin was given, which is why lines are off unless an operator asks for them.
//
// It is safe for concurrent use.
type guestLog struct {
	out    *slog.Logger // nil: off
	plugin string

	mu      sync.Mutex
	tokens  float64
	last    time.Time
	dropped int
}

func (l *guestLog) enabled() bool { return l.out != nil }

// write passes one line on. The line is copied.
func (l *guestLog) write(now time.Time, binding string, level abi.LogLevel, line []byte) {
	dropped, ok := l.take(now)
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String("plugin", l.plugin), slog.String("text", string(bytes.ToValidUTF8(line, []byte("?"))))}
	if binding != "" {
		attrs = append(attrs, slog.String("binding", binding))
	}
	if dropped > 0 {
		attrs = append(attrs, slog.Int("dropped_before", dropped))
	}
	l.out.LogAttrs(context.Background(), slogLevel(level), "plugin log", attrs...)
}

// take asks for leave to write a line, and says how many were dropped before it.
func (l *guestLog) take(now time.Time) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.IsZero() {
		l.tokens = logBurst
	} else if d := now.Sub(l.last); d > 0 {
		l.tokens = min(logBurst, l.tokens+d.Seconds()*logPerSec)
	}
	l.last = now
	if l.tokens < 1 {
		l.dropped++
		return 0, false
	}
	l.tokens--
	dropped, l.dropped = l.dropped, 0
	return dropped, true
}

func slogLevel(l abi.LogLevel) slog.Level {
	switch l {
	case abi.LogDebug:
		return slog.LevelDebug
	case abi.LogInfo:
		return slog.LevelInfo
	case abi.LogWarn:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// maxUnknown is how many different things a plugin may report as unknown before further ones are only counted.
const maxUnknown = 64

// unknownSet counts what a plugin skipped because it does not know it, and logs each thing once.
type unknownSet struct {
	mu    sync.Mutex
	seen  map[string]bool
	total int64
}

func (u *unknownSet) add(what string) (first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.total++
	if u.seen[what] || len(u.seen) >= maxUnknown {
		return false
	}
	if u.seen == nil {
		u.seen = make(map[string]bool)
	}
	u.seen[what] = true
	return true
}

func (u *unknownSet) count() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.total
}
