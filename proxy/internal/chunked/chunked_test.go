package chunked_test

import (
	"io"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/chunked"
)

// TestAppend checks that a reader of the coding gets what was appended, and that an empty piece does not end the body.
func TestAppend(t *testing.T) {
	for _, pieces := range [][]string{
		{"a"},
		{"", "a", "", "b", ""},
		{strings.Repeat("x", 15), strings.Repeat("y", 16), strings.Repeat("z", 1<<16)},
		{"\r\n0\r\n\r\n", "after"},
	} {
		var wire []byte
		for _, p := range pieces {
			before := len(wire)
			wire = chunked.Append(wire, p)
			if more := len(wire) - before - len(p); more > chunked.MaxOverhead {
				t.Errorf("%d bytes of overhead for %d bytes", more, len(p))
			}
		}
		got, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(string(wire) + "0\r\n\r\n")))
		if want := strings.Join(pieces, ""); err != nil || string(got) != want {
			t.Errorf("got %.40q, %v, want %.40q", got, err, want)
		}
	}
}
