package downstream

import (
	"net"
	"testing"
)

// TestAConnectionAcceptedWhileTheLastOneEnds is about one that Accept had returned, and not yet counted, when a shutdown
// found no connection open.
func TestAConnectionAcceptedWhileTheLastOneEnds(t *testing.T) {
	open := New(Options{})
	open.End(t.Context())
	client, server := net.Pipe()
	defer client.Close()
	late := &Conn{Conn: server, conns: open}
	if !open.add(late, 1) {
		t.Fatal("no room for the only connection")
	}
	if n, err := late.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("it takes a request: %d, %v", n, err)
	}
	// That there is no connection left has been said, and cannot be said again.
	if err := late.Close(); err != nil {
		t.Error(err)
	}
}
