package plugin_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// textLog returns a logger that writes lines without times to w.
func textLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(&lockedWriter{w: w}, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

// logger is a guest that logs the lines of its event.
var logger = native{event: func(h abi.Host, _ abi.EventKind, _, data []byte) int32 {
	for _, line := range bytes.Split(data, []byte("\n")) {
		h.Log(abi.LogWarn, line)
	}
	return 0
}}

func TestPluginLogIsOffByDefault(t *testing.T) {
	var log bytes.Buffer
	h := newHost(t, plugin.Options{Log: textLog(&log)})
	bound := bind(t, loadNative(t, h, logger), plugin.BindingConfig{})
	if err := bound.Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, b("prompt text")); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), "prompt") {
		t.Errorf("log:\n%s", &log)
	}
}

// covers: C73
func TestPluginLogLimits(t *testing.T) {
	var log bytes.Buffer
	h := newHost(t, plugin.Options{PluginLog: textLog(&log)})
	bound := bind(t, loadNative(t, h, logger), plugin.BindingConfig{Redact: redact})
	a := newAttempt(t, body)
	lines := "key sk-secret\n" + strings.Repeat("z", abi.MaxLogLine-5) + "sk-secret\n" + strings.Repeat("y", 1000)
	for _, lines := range []string{lines, strings.Repeat("flood\n", 1000)} {
		if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b(lines)); err != nil {
			t.Fatal(err)
		}
	}
	got := log.String()
	if !strings.Contains(got, `level=WARN msg="plugin log" plugin=native text="key ***" binding=binding`) {
		t.Errorf("log:\n%s", got)
	}
	if strings.Contains(got, "sk-") {
		t.Errorf("the log contains part of a credential:\n%s", got)
	}
	if n := strings.Count(got, "y"); n != abi.MaxLogLine+strings.Count(got, "key") {
		t.Errorf("%d bytes of a line of 1000, want %d", n, abi.MaxLogLine)
	}
	if n := strings.Count(got, "\n"); n < 20 || n > 40 {
		t.Errorf("%d lines of a flood, want 20 to 40", n)
	}
}

// TestLogFloodIsChargedAndLimited runs a guest that logs a million lines, in calls that run out of fuel. The last lines
// of each call are not rate-limited.
//
// covers: F96
func TestLogFloodIsChargedAndLimited(t *testing.T) {
	m := newModule("log").base()
	m.provider(forever(i32(1), i32(inputAt), i32(5), m.call("log")), i32(0))
	var log bytes.Buffer
	h := newHost(t, plugin.Options{PluginLog: textLog(&log)})
	p := load(t, h, plugin.Spec{Wasm: m.Bytes()})
	bound := bind(t, p, plugin.BindingConfig{})
	const perLine = 64 // maximum units for a line: the import, its bytes and the loop
	const perCall = 64 // maximum lines of a call in the log
	calls := 0
	flood := 1_000_000
	if testing.Short() {
		flood = 100_000
	}
	for lines := 0; lines < flood; lines += plugin.DefaultEventFuel / perLine {
		calls++
		a := newAttempt(t, body)
		a.Tenant = fmt.Sprint(lines) // a different key each time, so that no circuit opens
		wantCallError(t, bound.Event(t.Context(), a, abi.EventPlain, nil, b("flood")), plugin.KindOutOfFuel)
		if a.Fuel < plugin.DefaultEventFuel {
			t.Errorf("a call used %d units, want at least %d", a.Fuel, plugin.DefaultEventFuel)
		}
	}
	limit := calls * perCall
	if n := strings.Count(log.String(), "\n"); n < 20 || n > limit || !strings.Contains(log.String(), "dropped_before=") {
		t.Errorf("%d lines of the flood, want 20 to %d", n, limit)
	}
}

// covers: C27
func TestConfigureErrorReachesOperator(t *testing.T) {
	p := loadNative(t, newHost(t, plugin.Options{}), native{configure: func(h abi.Host, settings []byte) int32 {
		if string(settings) != `{"a":1}` {
			h.Log(abi.LogInfo, b("reading settings"))
			h.Log(abi.LogError, b("member a is missing, sk-secret"))
			h.Log(abi.LogDebug, b("leaving"))
			return 3
		}
		return 0
	}})
	bind(t, p, plugin.BindingConfig{Settings: b(`{"a":1}`)})
	_, err := p.Bind(t.Context(), plugin.BindingConfig{Name: "eu", Redact: redact})
	wantCallError(t, err, plugin.KindStatus)
	const text = `plugin native: binding eu: sluice_configure: failed: status 3: "member a is missing, [redacted]"`
	if err.Error() != text {
		t.Errorf("error %q, want %q", err, text)
	}
}
