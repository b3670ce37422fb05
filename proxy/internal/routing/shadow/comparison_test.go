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

// TestComparison checks that each copy is compared once, whichever response ends first.
func TestComparison(t *testing.T) {
	var log bytes.Buffer
	c := shadow.Comparison{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), Request: "req-1", Model: "m"}
	if !c.Empty() {
		t.Error("not empty before Add")
	}
	var early, late shadow.Figures
	cancel := func(error) { t.Error("cancelled") }
	first, last := c.Add("p", "early", &early, cancel), c.Add("p", "late", &late, cancel)
	if c.Empty() {
		t.Error("empty after Add")
	}
	first.Finish(recorded("f {}"))
	if n := early.Counts().Compared; n != 0 {
		t.Errorf("%d comparisons before the response to the client ended", n)
	}
	compare := c.Finish(recorded("f {}"))
	if compare == nil {
		t.Fatal("Finish did not return a function although a copy has ended")
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

// TestComparisonCancelled checks that cancelled copies are not compared.
func TestComparisonCancelled(t *testing.T) {
	c := shadow.Comparison{Log: slog.New(slog.DiscardHandler)}
	disconnected := errors.New("disconnected")
	ctx, cancel := context.WithCancelCause(t.Context())
	var f shadow.Figures
	copied := c.Add("p", "m", &f, cancel)
	c.Cancel(disconnected)
	if context.Cause(ctx) != disconnected {
		t.Errorf("the copy was not cancelled: %v", context.Cause(ctx))
	}
	copied.Finish(recorded("f {}"))
	if n := f.Counts().Compared; n != 0 {
		t.Errorf("%d comparisons, want none", n)
	}
	c = shadow.Comparison{Log: c.Log}
	c.Add("p", "m", &f, cancel)
	if c.Finish(recorded("f {}")) != nil {
		t.Error("Finish returned a function although no copy has ended")
	}
}
