package proxy

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// LogWriter batches log lines to an output on a goroutine of its own: logging never blocks a request, and an output that
// blocks loses lines, which are counted. Close flushes it.
type LogWriter = telemetry.Writer

// NewLogWriter returns a LogWriter to out.
func NewLogWriter(out io.Writer) *LogWriter { return telemetry.NewWriter(out) }

// NewLogger returns a logger that writes the gateway's log format, JSON or text, to w.
func NewLogger(w *LogWriter, json bool, level slog.Leveler) *slog.Logger {
	return telemetry.NewLogger(w, json, level)
}

// fasthttpLogger is fasthttp's logger. It reports broken connections, of which the access log has the requests.
type fasthttpLogger struct{ log *slog.Logger }

func (l fasthttpLogger) Printf(format string, args ...any) {
	for i, a := range args {
		if err, ok := a.(error); ok {
			args[i] = unquoted(err)
		}
	}
	l.log.Debug("fasthttp", "text", fmt.Sprintf(format, args...))
}
