package plugindev

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// logBuffer keeps what plugins log and print, and the stacks of traps. It implements slog.Handler, and is safe for
// concurrent use. A line that repeats is kept once, because vectors run in many ways.
type logBuffer struct {
	mu      sync.Mutex
	lines   []string
	counts  map[string]int
	dropped int
	dump    bool // the lines are Go's dump of its stacks, which follows the message of a panic
}

// maxLogLines limits the different lines that are kept.
const maxLogLines = 40

// Enabled implements slog.Handler.
func (b *logBuffer) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (b *logBuffer) WithAttrs([]slog.Attr) slog.Handler { return b }

// WithGroup implements slog.Handler.
func (b *logBuffer) WithGroup(string) slog.Handler { return b }

// Handle implements slog.Handler.
func (b *logBuffer) Handle(_ context.Context, r slog.Record) error {
	text, function := "", ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "text":
			text = a.Value.String()
		case "function":
			function = a.Value.String()
		}
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	line := strings.ToLower(r.Level.String()) + ": " + text
	if function != "" {
		line = "  in " + function
	}
	b.dump = function == "" && r.Level == slog.LevelError && (b.dump || strings.HasPrefix(text, "goroutine "))
	switch {
	case b.dump, text == "" && function == "":
	case b.counts[line] > 0:
		b.counts[line]++
	case len(b.lines) == maxLogLines:
		b.dropped++
	default:
		if b.counts == nil {
			b.counts = make(map[string]int)
		}
		b.counts[line] = 1
		b.lines = append(b.lines, line)
	}
	return nil
}

// TakeLog returns the lines that plugins have logged and printed since the last call, with their level. Lines that
// repeat are listed once.
func (h *Host) TakeLog() (lines []string) {
	b := h.log
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.lines {
		if n := b.counts[line]; n > 1 {
			line += fmt.Sprintf(" (%d times)", n)
		}
		lines = append(lines, line)
	}
	if b.dropped > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", b.dropped))
	}
	b.lines, b.counts, b.dropped = nil, nil, 0
	return lines
}
