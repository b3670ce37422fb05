//go:build !race

package access_test

import "testing"

func TestCheckDoesNotAllocate(t *testing.T) {
	k, header := many(1000)
	if n := testing.AllocsPerRun(1000, func() {
		found, e := k.Authenticate(header, now)
		if e != nil || !found.Allows("gpt-5.4") || found.Allows("claude") {
			t.Fatal(e)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
