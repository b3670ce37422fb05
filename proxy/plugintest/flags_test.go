package plugintest_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
)

func TestGuestBuildDropsHostFlags(t *testing.T) {
	for flags, want := range map[string]string{
		"":                       "",
		"-race":                  "",
		"-mod=readonly -race -v": "-mod=readonly -v",
		"--race=true -cover -covermode=atomic -coverpkg=./...": "",
		"-buildmode=pie -trimpath":                             "-trimpath",
		"-tags=raceful":                                        "-tags=raceful",
	} {
		if got := buildtest.GuestFlags(flags); got != want {
			t.Errorf("GuestFlags(%q) = %q, want %q", flags, got, want)
		}
	}
}
