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
