package sdk_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func TestSummaryHas(t *testing.T) {
	s := sdk.Summary{Flags: sdk.FlagTools | sdk.FlagImages}
	if !s.Has(sdk.FlagTools) || s.Has(sdk.FlagTools|sdk.FlagAudio) {
		t.Errorf("Has of %b", s.Flags)
	}
}

func TestFailureFields(t *testing.T) {
	for want, f := range map[string]*sdk.Failure{
		"Not now.": sdk.Fail(abi.FailRateLimit, "Not now."),
		"No n.":    sdk.Refuse("n", "No n."),
		"a_code":   {Code: "a_code"},
		"failure":  {},
	} {
		if f.Error() != want {
			t.Errorf("%+v says %q, want %q", f, f.Error(), want)
		}
	}
	if f := sdk.Refuse("n", ""); f.Kind != abi.FailUnsupported || f.Param != "n" {
		t.Errorf("Refuse makes %+v", f)
	}
}

func TestRetryDelay(t *testing.T) {
	for text, want := range map[string]int32{
		"20": 20_000, "48.9": 48_900, "0.5": 500, " 7 ": 7000, "48.9s": 48_900, "250ms": 250, "1m30s": 90_000, "1m30.5s": 90_500, "6m0s": 360_000, "1h2m3s": 3_723_000,
		"0.0001s": 1, "2 minutes": 120_000, "1 hour": 3_600_000, "1 minute 30 seconds": 90_000, "3d": 259_200_000, "999999999999999999999s": 604_800_000,
		"Rate limit reached for x in organization y on tokens per min (TPM): Limit 30000. Please try again in 1.898s. Visit https://x for more.": 1898,
		"Please try again in 20s.":                       20_000,
		"Please try again in 7m12s. Need more tokens?":   432_000,
		"Please retry after 60 seconds.":                 60_000,
		"retry after 12":                                 12_000,
		"Please wait 5 sec. and 3 more":                  5000,
		"You exceeded your quota. Please retry in 48.97": 48_970,
		"":                       0,
		"0":                      0,
		"-5":                     0,
		"soon":                   0,
		"try again in a moment":  0,
		"Fri, 31 Dec 1999 23:59": 0,
		".5":                     0,
	} {
		if got := sdk.RetryDelay([]byte(text)); got != want {
			t.Errorf("%q: %d ms, want %d", text, got, want)
		}
	}
}

func FuzzRetryDelay(f *testing.F) {
	f.Add("Please try again in 1m30.5s.")
	f.Fuzz(func(t *testing.T, text string) {
		if ms := sdk.RetryDelay([]byte(text)); ms < 0 || ms > 7*24*3600*1000 {
			t.Errorf("%q: %d ms", text, ms)
		}
	})
}

func TestStatusKind(t *testing.T) {
	for status, want := range map[int]abi.FailKind{
		400: abi.FailInvalidRequest, 401: abi.FailAuth, 402: abi.FailBilling, 403: abi.FailAuth, 404: abi.FailModelNotFound, 408: abi.FailTimeout, 409: abi.FailConflict,
		413: abi.FailTooLarge, 422: abi.FailInvalidRequest, 429: abi.FailRateLimit, 500: abi.FailServer, 503: abi.FailOverloaded, 504: abi.FailTimeout, 0: abi.FailServer,
	} {
		if got := sdk.StatusKind(status); got != want {
			t.Errorf("%d: %d, want %d", status, got, want)
		}
	}
}
