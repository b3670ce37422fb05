package plugin

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// The rate limit of a plugin's log lines. Further lines are counted and dropped.
const (
	logBurst  = 20
	logPerSec = 5
)

// guestLog forwards the log lines of one plugin, if enabled. The rate is limited except for lines of failed calls. A
// line may contain prompts and responses, which is why plugin logs are off by default.
//
// It is safe for concurrent use.
type guestLog struct {
	out    *slog.Logger // nil if plugin logs are off
	plugin string

	rate    *rate.Limiter
	dropped atomic.Int64 // lines dropped since the last forwarded one
}

func (l *guestLog) enabled() bool { return l.out != nil }

// write forwards a copy of one line, with always even if it exceeds the rate limit.
func (l *guestLog) write(now time.Time, binding string, level abi.LogLevel, line []byte, always bool) {
	if !l.rate.AllowN(now, 1) && !always {
		l.dropped.Add(1)
		return
	}
	dropped := l.dropped.Swap(0)
	attrs := []slog.Attr{slog.String("plugin", l.plugin), slog.String("text", string(bytes.ToValidUTF8(line, []byte("?"))))}
	if binding != "" {
		attrs = append(attrs, slog.String("binding", binding))
	}
	if dropped > 0 {
		attrs = append(attrs, slog.Int64("dropped_before", dropped))
	}
	l.out.LogAttrs(context.Background(), slogLevel(level), "plugin log", attrs...)
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

// maxUnknown is the number of distinct unknown elements of a plugin that are logged. Further ones are only counted.
const maxUnknown = 64

// unknownSet counts the elements that a plugin has skipped as unknown, and remembers which ones were logged.
type unknownSet struct {
	mu    sync.Mutex
	seen  map[string]bool
	total int64
}

// add counts an element, and reports whether it should be logged because it is new.
func (u *unknownSet) add(element string) (first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.total++
	if u.seen[element] || len(u.seen) >= maxUnknown {
		return false
	}
	if u.seen == nil {
		u.seen = make(map[string]bool)
	}
	u.seen[element] = true
	return true
}

func (u *unknownSet) count() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.total
}
