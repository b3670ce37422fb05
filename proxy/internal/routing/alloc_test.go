package routing_test

import (
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

func TestAttemptsDoNotAllocate(t *testing.T) {
	target := newTarget(routing.Target{})
	if n := testing.AllocsPerRun(100, func() {
		ticket, _ := target.StartAttempt(now, false, false)
		target.RecordFirstEvent(ticket)
		target.EndAttempt(ticket, routing.Succeeded, 0, time.Millisecond, now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
