package telemetry_test

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// TestLineMatchesSlog compares request lines with those of package slog.
func TestLineMatchesSlog(t *testing.T) {
	whole := withClient()
	whole.UpstreamID, whole.Target = "req_1", "models/gemini-2.5/flash"
	whole.Bytes, whole.UsageEstimated, whole.Dropped, whole.Fuel = 1, true, 4, 5
	whole.Tokens = cost.Tokens{Prompt: 9, Cached: 2, CacheWrite: 3, Completion: 8, Reasoning: 3}
	whole.Cost, whole.Priced = 1_500_000, true
	failed := whole
	failed.Status, failed.Code, failed.Cause = 502, "upstream_error", errors.New("reset by peer")
	bare := telemetry.Record{Status: 400, RequestID: "r"}
	traced := whole
	traced.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	quoted := func(key string) telemetry.Record {
		r := whole
		r.Key = key
		return r
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, r := range map[string]telemetry.Record{
		"whole": whole, "failed": failed, "traced": traced, "almost empty": bare, "space": quoted("a b"), "quote": quoted(`a"b`), "equals sign": quoted("a=b"),
		"backslash": quoted(`a\b`), "control character": quoted("a\x1fb"), "DEL": quoted("a\x7fb"), "not ASCII": quoted("ä\u2028"), "not UTF-8": quoted("\xff"), "plain characters": quoted("!#$%&'()*+,-./09:;<>?@AZ[]^_`az{|}~"),
	} {
		t.Run(name, func(t *testing.T) {
			for _, fraction := range []time.Duration{0, 900, 100 * time.Millisecond, 120_300 * time.Microsecond, 999_999_999, 40 * time.Minute} {
				for _, json := range []bool{false, true} {
					r.Began, r.FirstEvent = at, 1_500*time.Microsecond
					now := func() time.Time { return at.Add(fraction) }
					var want bytes.Buffer
					var reference slog.Handler = slog.NewTextHandler(&want, nil)
					if json {
						reference = slog.NewJSONHandler(&want, nil)
					}
					(&telemetry.Log{Logger: slog.New(reference), Now: now}).Request(&r)
					got := output(t, func(w *telemetry.Writer) {
						(&telemetry.Log{Logger: telemetry.NewLogger(w, json, slog.LevelInfo), Now: now}).Request(&r)
					})
					if got, want := withoutTime(got), withoutTime(want.String()); got != want {
						t.Errorf("got  %s\nwant %s", got, want)
					}
				}
			}
		})
	}
}

// TestLineTimeMatchesSlog compares the time of a line with that of a slog.Record. TestLineMatchesSlog does not, because
// slog.Logger always uses the system clock.
func TestLineTimeMatchesSlog(t *testing.T) {
	r := withClient()
	for fraction, want := range map[time.Duration][2]string{
		0:                          {"time=2026-01-02T03:04:05.000Z ", `{"time":"2026-01-02T03:04:05Z",`},
		100 * time.Millisecond:     {"time=2026-01-02T03:04:05.100Z ", `{"time":"2026-01-02T03:04:05.1Z",`},
		120_300 * time.Microsecond: {"time=2026-01-02T03:04:05.120Z ", `{"time":"2026-01-02T03:04:05.1203Z",`},
		999_999_999:                {"time=2026-01-02T03:04:05.999Z ", `{"time":"2026-01-02T03:04:05.999999999Z",`},
	} {
		at := time.Date(2026, 1, 2, 3, 4, 5, int(fraction), time.UTC)
		record := slog.NewRecord(at, slog.LevelInfo, "request", 0)
		for i, json := range []bool{false, true} {
			got := output(t, func(w *telemetry.Writer) {
				l := telemetry.NewLogger(w, json, slog.LevelInfo)
				(&telemetry.Log{Logger: l, Now: func() time.Time { return at }}).Request(&r)
				if err := l.Handler().Handle(t.Context(), record); err != nil {
					t.Error(err)
				}
			})
			lines := bytes.SplitAfter([]byte(got), []byte("\n"))
			for _, line := range lines[:2] {
				if !bytes.HasPrefix(line, []byte(want[i])) {
					t.Errorf("%s does not begin with %s", line, want[i])
				}
			}
		}
	}
}

func TestLoggerLevel(t *testing.T) {
	r := completion()
	level := new(slog.LevelVar)
	got := output(t, func(w *telemetry.Writer) {
		log := telemetry.Log{Logger: telemetry.NewLogger(w, false, level)}
		level.Set(slog.LevelWarn)
		log.Request(&r)
		level.Set(slog.LevelInfo)
		log.Request(&r)
	})
	if n := bytes.Count([]byte(got), []byte("\n")); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
}

// withClient returns a completion with the fields of its client.
func withClient() telemetry.Record {
	r := completion()
	r.RequestID, r.Remote, r.Key = "req_0123456789abcdef0123456789abcdef", "2001:db8::1", "team-a"
	return r
}

// output returns the output of a Writer after use has returned and the Writer is closed.
func output(t *testing.T, use func(*telemetry.Writer)) string {
	t.Helper()
	var out bytes.Buffer
	w := telemetry.NewWriter(&out)
	use(w)
	if !w.Close(time.Minute) {
		t.Fatal("Close timed out")
	}
	return out.String()
}

var times = regexp.MustCompile(`time"?[=:]"?[-0-9T:.Z+]+"?`)

func withoutTime(line string) string { return times.ReplaceAllString(line, "") }
