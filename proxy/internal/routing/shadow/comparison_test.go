package shadow_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/routing/shadow"
)

// TestComparison compares each copy once, whichever response ends first.
func TestComparison(t *testing.T) {
	var log bytes.Buffer
	c := shadow.Comparison{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), Request: "req-1", Model: "m"}
	if !c.Empty() {
		t.Error("copies where none was sent")
	}
	var early, late shadow.Figures
	cancel := func(error) { t.Error("cancelled") }
	first, last := c.Add("p", "early", &early, cancel), c.Add("p", "late", &late, cancel)
	if c.Empty() {
		t.Error("no copies where two were sent")
	}
	first.Finish(recorded("f {}"))
	if n := early.Counts().Compared; n != 0 {
		t.Errorf("%d comparisons before the response to the client was known", n)
	}
	compare := c.Finish(recorded("f {}"))
	if compare == nil {
		t.Fatal("a copy that has ended is not compared")
	}
	compare()
	last.Finish(recorded("g {}"))
	if a, b := early.Counts(), late.Counts(); a.Compared != 1 || b.Compared != 1 || b.Differences[shadow.ToolNames] != 1 {
		t.Errorf("figures %+v and %+v", a, b)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `msg="shadow compared" request=req-1 model=m provider=p target=early differences="" client_status=200`) ||
		!strings.Contains(lines[1], "target=late differences=tool_names ") {
		t.Errorf("log:\n%s", log.String())
	}
}

// TestComparisonCancelled compares nothing with a client that has left.
func TestComparisonCancelled(t *testing.T) {
	c := shadow.Comparison{Log: slog.New(slog.DiscardHandler)}
	left := errors.New("left")
	ctx, cancel := context.WithCancelCause(t.Context())
	var f shadow.Figures
	copied := c.Add("p", "m", &f, cancel)
	c.Cancel(left)
	if context.Cause(ctx) != left {
		t.Errorf("the copy goes on: %v", context.Cause(ctx))
	}
	copied.Finish(recorded("f {}"))
	if n := f.Counts().Compared; n != 0 {
		t.Errorf("%d comparisons", n)
	}
	c = shadow.Comparison{Log: c.Log}
	c.Add("p", "m", &f, cancel)
	if c.Finish(recorded("f {}")) != nil {
		t.Error("a comparison with a copy that has not ended")
	}
}
