package plugintest

import "testing"

func TestGuestsAreBuiltWithoutHostFlags(t *testing.T) {
	for flags, want := range map[string]string{
		"":                       "",
		"-race":                  "",
		"-mod=readonly -race -v": "-mod=readonly -v",
		"--race=true -cover -covermode=atomic -coverpkg=./...": "",
		"-buildmode=pie -trimpath":                             "-trimpath",
		"-tags=raceful":                                        "-tags=raceful",
	} {
		if got := guestFlags(flags); got != want {
			t.Errorf("of %q remains %q, want %q", flags, got, want)
		}
	}
}
