//go:build !linux

package upstreamtest

import "testing"

// Blackhole returns "": it is implemented for Linux only.
func Blackhole(tb testing.TB, _ string, _ int) string {
	tb.Helper()
	tb.Log("no blackhole on this system")
	return ""
}
