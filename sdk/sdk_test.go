package sdk_test

import (
	"reflect"
	"testing"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

func read(doc string) (s sdk.Summary, err error) {
	var r json.Reader
	r.Reset([]byte(doc))
	s.Read(&r)
	return s, r.End()
}

func TestSummary(t *testing.T) {
	got, err := read(`{"request_id":"r","time":1,"attempt":2,"random":"00000000000000ff","stream":true,"include_usage":true,
		"model":"a\/b","target":"t","limits":{"max_tokens":3,"default_max_tokens":4,"other":5},
		"flags":["tools","cache_control","a new one"],"body":6,"options":{"x":[1]},"a new member":{"y":[]}}`)
	want := sdk.Summary{
		RequestID: []byte("r"), Time: 1, Attempt: 2, Random: 255, Stream: true, IncludeUsage: true, Model: []byte("a/b"),
		Target: []byte("t"), MaxTokens: 3, DefaultMaxTokens: 4, Flags: sdk.FlagTools | sdk.FlagCacheControl, BodySize: 6,
		Options: json.Value(`{"x":[1]}`),
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v", got, err)
	}
	if !got.Has(sdk.FlagTools) || got.Has(sdk.FlagTools|sdk.FlagAudio) {
		t.Error("Has")
	}
}

func TestSummaryWithMissingMembers(t *testing.T) {
	for _, doc := range []string{`{}`, `{"random":"XYZ","flags":{},"limits":[],"time":"now","model":null}`} {
		if got, err := read(doc); err != nil || !reflect.DeepEqual(got, sdk.Summary{}) {
			t.Errorf("%s: read %+v, %v", doc, got, err)
		}
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

func FuzzSummary(f *testing.F) {
	f.Add(`{"random":"9f86d081884c7d65","flags":["tools"],"limits":{"max_tokens":1}}`)
	f.Add(`{"options":{"a":`)
	f.Fuzz(func(t *testing.T, doc string) {
		s, err := read(doc)
		if err == nil && s.Options != nil && !s.Options.Valid() {
			t.Errorf("options that are not JSON: %s", s.Options)
		}
	})
}
