package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRequestLine(t *testing.T) {
	var out bytes.Buffer
	began := time.Unix(1_700_000_000, 0)
	l := telemetry.Log{
		Logger: slog.New(slog.NewJSONHandler(&out, nil)),
		Now:    func() time.Time { return began.Add(time.Second) },
	}
	l.Request(&telemetry.Record{
		Began: began, RequestID: "r1", Method: "POST", Path: "/v1/chat/completions", Status: 502, Code: "upstream_error",
		Key: "local", Model: "m", Provider: "p", Attempts: 2, Tokens: cost.Tokens{Prompt: 7}, Cost: 21_000, Priced: true, Cause: errors.New("reset by peer"),
	})
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"level": "ERROR", "msg": "request", "request": "r1", "status": 502.0, "code": "upstream_error", "key": "local",
		"model": "m", "provider": "p", "attempts": 2.0, "prompt_tokens": 7.0, "cost": 0.000021, "cause": "reset by peer", "duration_ms": 1000.0,
	} {
		if line[name] != want {
			t.Errorf("%s: got %v, want %v", name, line[name], want)
		}
	}
	if _, ok := line["completion_tokens"]; ok {
		t.Error("an unknown count was logged")
	}
}

func TestRequestLevel(t *testing.T) {
	for _, c := range []struct {
		name, code string
		status     int
		want       string
	}{
		{"success", "", 200, "INFO"},
		{"broken stream", "upstream_stream_truncated", 200, "ERROR"},
		{"client error", "invalid_type", 400, "WARN"},
		{"client disconnect", "client_closed_request", 499, "WARN"},
		{"provider failure", "upstream_error", 502, "ERROR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			l := telemetry.Log{Logger: slog.New(slog.NewTextHandler(&out, nil))}
			l.Request(&telemetry.Record{Began: time.Now(), RequestID: "r1", Remote: "192.0.2.1", Status: c.status, Code: c.code})
			if !strings.Contains(out.String(), "level="+c.want+" ") {
				t.Errorf("want level %s: %s", c.want, &out)
			}
			if strings.Contains(out.String(), `""`) {
				t.Errorf("a field has an empty value: %s", &out)
			}
		})
	}
}

// gate is an output that blocks until open is closed.
type gate struct {
	entered chan struct{}
	open    chan struct{}
	mu      sync.Mutex
	buf     bytes.Buffer
	once    sync.Once
}

func (g *gate) Write(p []byte) (int, error) {
	g.once.Do(func() { close(g.entered) })
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.buf.Write(p)
}

func TestWriterKeepsOrderAndFlushesOnClose(t *testing.T) {
	g := &gate{entered: make(chan struct{}), open: make(chan struct{})}
	close(g.open)
	w := telemetry.NewWriter(g)
	for _, s := range []string{"a\n", "b\n", "c\n"} {
		if _, err := w.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	w.Close(10 * time.Second)
	if got := g.buf.String(); got != "a\nb\nc\n" {
		t.Errorf("got %q", got)
	}
}

// TestFlushDoesNotWaitForLaterLines checks that Flush writes the pending lines before flushAfter has passed.
func TestFlushDoesNotWaitForLaterLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := telemetry.NewWriter(&out)
		defer w.Close(time.Second)
		written := func(when, want string) {
			t.Helper()
			synctest.Wait()
			if out.String() != want {
				t.Errorf("%s: output %q, want %q", when, &out, want)
			}
			out.Reset()
		}
		for range 2 {
			fmt.Fprintln(w, "first")
			written("before Flush", "")
			fmt.Fprintln(w, "second")
			w.Flush()
			written("after Flush", "first\nsecond\n")
			w.Flush()
			written("after Flush without lines", "")
		}
		fmt.Fprintln(w, "third")
		<-time.After(time.Second)
		written("a second later", "third\n")
	})
}

func TestBlockedOutputDropsLinesAndNeverBlocks(t *testing.T) {
	g := &gate{entered: make(chan struct{}), open: make(chan struct{})}
	w := telemetry.NewWriter(g)
	line := []byte(strings.Repeat("x", 1<<16))
	if _, err := w.Write(line); err != nil {
		t.Fatal(err)
	}
	<-g.entered
	for range 64 {
		if _, err := w.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if w.Dropped() == 0 {
		t.Error("4 MiB of lines were buffered, want some dropped")
	}
	w.Close(0)
	close(g.open)
	w.Close(10 * time.Second)
}

// narrow is an output that accepts room bytes, and then fails as if the disk were full.
type narrow struct {
	wrote chan struct{} // receives after each Write

	mu    sync.Mutex
	room  int
	taken bytes.Buffer
}

func (n *narrow) Write(p []byte) (m int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m = min(n.room, len(p)); m < len(p) {
		err = errors.New("no space left on device")
	}
	n.taken.Write(p[:m])
	n.room -= m
	n.wrote <- struct{}{}
	return m, err
}

// TestFailingOutputDropsLines checks that lines that could not be written are counted as dropped, and that after a
// partly written line the next one starts on a new line.
//
// covers: F84
func TestFailingOutputDropsLines(t *testing.T) {
	out := &narrow{room: 6, wrote: make(chan struct{}, 16)}
	w := telemetry.NewWriter(out)
	write := func(lines string, room, writes int) {
		t.Helper()
		out.mu.Lock()
		out.room = room
		out.mu.Unlock()
		if _, err := w.Write([]byte(lines)); err != nil {
			t.Fatal(err)
		}
		for range writes {
			<-out.wrote
		}
	}
	write("one\ntwo\nthree\n", 6, 1)
	write("four\n", 0, 2) // the newline after the partial line does not fit either
	write("five\n", 100, 2)
	write("six\n", 100, 1)
	if !w.Close(10 * time.Second) {
		t.Fatal("Close timed out")
	}
	if got := out.taken.String(); got != "one\ntw\nfive\nsix\n" {
		t.Errorf("got output %q", got)
	}
	if n := w.Dropped(); n != 3 {
		t.Errorf("%d lines dropped, want 3: two, three and four", n)
	}
}
