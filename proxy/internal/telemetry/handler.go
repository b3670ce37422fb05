package telemetry

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

// NewLogger returns a logger that writes text or JSON lines, byte for byte like the handlers of package slog. It
// formats the lines of requests without slog, at a fifth of the cost.
func NewLogger(out *Writer, json bool, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	h := &handler{Handler: slog.NewTextHandler(out, o), out: out}
	if json {
		h.Handler, h.json = slog.NewJSONHandler(out, o), true
	}
	return slog.New(h)
}

// Guarded returns a logger that drops the lines on which its handler panics, and counts them, because such a panic ends
// the process on most goroutines that log. Handlers of NewLogger do not panic.
func Guarded(l *slog.Logger, m *Metrics) *slog.Logger {
	switch l.Handler().(type) {
	case *handler, guarded:
		return l
	}
	return slog.New(guarded{l.Handler(), m})
}

// guarded is a slog.Handler that does not panic.
type guarded struct {
	slog.Handler
	metrics *Metrics
}

// Handle implements slog.Handler.
func (g guarded) Handle(ctx context.Context, r slog.Record) error {
	defer rescue.Recover(func(*rescue.Error) { g.metrics.Panic() })
	return g.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (g guarded) WithAttrs(a []slog.Attr) slog.Handler {
	return guarded{g.Handler.WithAttrs(a), g.metrics}
}

// WithGroup implements slog.Handler.
func (g guarded) WithGroup(name string) slog.Handler {
	return guarded{g.Handler.WithGroup(name), g.metrics}
}

// handler is a slog.Handler with a fast path for requests.
type handler struct {
	slog.Handler
	out   io.Writer // safe for concurrent use
	json  bool
	lines sync.Pool // *line
}

// writeRequest writes a request's line. If a string needs quoting or escaping, it writes nothing and returns false, and
// the caller uses slog instead.
func (h *handler) writeRequest(at time.Time, level slog.Level, r *Record, took time.Duration) bool {
	l, ok := h.lines.Get().(*line)
	if !ok {
		l = new(line)
	}
	defer h.lines.Put(l)
	l.json, l.needsQuoting, l.buf = h.json, false, l.buf[:0]
	l.begin(at, level)
	r.writeFields(took, l)
	if l.needsQuoting {
		return false
	}
	if l.json {
		l.buf = append(l.buf, '}')
	}
	_, _ = h.out.Write(append(l.buf, '\n'))
	return true
}

// line is a log line under construction.
type line struct {
	buf          []byte
	json         bool
	needsQuoting bool // a string is not plain
}

func (l *line) begin(at time.Time, level slog.Level) {
	const millis = len("2006-01-02T15:04:05.000")
	if l.json {
		l.buf = append(l.buf, `{"time":"`...)
		l.buf = at.AppendFormat(l.buf, time.RFC3339Nano)
		l.buf = append(l.buf, `","level":"`...)
		l.buf = append(append(l.buf, level.String()...), `","msg":"`+Message+`"`...)
		return
	}
	l.buf = append(l.buf, "time="...)
	// Package time has a fast path for RFC3339Nano, which drops trailing zeros. Add a tenth of a millisecond to keep
	// the zeros of the milliseconds, and cut off its digit.
	n := len(l.buf)
	l.buf = at.Truncate(time.Millisecond).Add(time.Millisecond/10).AppendFormat(l.buf, time.RFC3339Nano)
	l.buf = append(l.buf[:n+millis], l.buf[n+millis+1:]...)
	l.buf = append(l.buf, " level="...)
	l.buf = append(append(l.buf, level.String()...), " msg="+Message...)
}

func (l *line) name(name string) {
	if l.json {
		l.buf = append(append(append(l.buf, `,"`...), name...), `":`...)
		return
	}
	l.buf = append(append(append(l.buf, ' '), name...), '=')
}

func (l *line) text(name, v string) {
	l.needsQuoting = l.needsQuoting || !isPlain(v)
	l.name(name)
	if l.json {
		l.buf = append(append(append(l.buf, '"'), v...), '"')
		return
	}
	l.buf = append(l.buf, v...)
}

func (l *line) number(name string, v int64) {
	l.name(name)
	l.buf = strconv.AppendInt(l.buf, v, 10)
}

func (l *line) bool(name string, v bool) {
	l.name(name)
	l.buf = strconv.AppendBool(l.buf, v)
}

func (l *line) duration(name string, v time.Duration) {
	l.name(name)
	l.buf = millis(v).append(l.buf)
}

func (l *line) amount(name string, v cost.Nano) {
	l.name(name)
	l.buf = v.Append(l.buf)
}

// plain marks the bytes that neither format escapes or quotes.
var plain = func() (t [256]bool) {
	for c := byte('!'); c <= '~'; c++ {
		t[c] = c != '"' && c != '\\' && c != '='
	}
	return t
}()

func isPlain(s string) bool {
	for i := range len(s) {
		if !plain[s[i]] {
			return false
		}
	}
	return s != ""
}
