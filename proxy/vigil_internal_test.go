package proxy

import "testing"

// TestALookBeforeThereIsAProvider is about a request that waits for its router's plugin: the client is looked after then,
// and no provider has a say in how often.
func TestALookBeforeThereIsAProvider(t *testing.T) {
	x := &completion{conn: &clientConn{}, stream: true}
	if d := x.lookAfter(); d != lookEvery {
		t.Errorf("%s", d)
	}
}
