package proxy

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
)

// TestALookBeforeThereIsAProvider is about a request that waits for its router's plugin: the client is looked after then,
// and no provider has a say in how often.
func TestALookBeforeThereIsAProvider(t *testing.T) {
	x := &completion{conn: new(downstream.Conn), stream: true}
	if d := x.lookAfter(); d != downstream.CheckInterval {
		t.Errorf("%s", d)
	}
}
