package sdk

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// own is a summary in the gateway's own form.
const own = `{"request_id":"req_0123456789abcdef0123456789abcdef","time":1789012345678,"attempt":2,"random":"0123456789abcdef",` +
	`"stream":true,"include_usage":false,"model":"fast","target":"provider/model-1","limits":{"max_tokens":64000,` +
	`"default_max_tokens":4096},"flags":["tools","images"],"body":123456789,"options":{"a":{"b":[1,2]}}}`

// read is the reader of any JSON.
func read(doc []byte) (s Summary, err error) {
	var in json.Reader
	in.Reset(doc)
	s.Read(&in)
	return s, in.End()
}

func TestSummaryInGatewayFormat(t *testing.T) {
	var s Summary
	if !s.quick([]byte(own)) {
		t.Fatal("the gateway's own form is not read quickly")
	}
	want := Summary{
		RequestID: []byte("req_0123456789abcdef0123456789abcdef"), Time: 1789012345678, Attempt: 2, Random: 0x0123456789abcdef,
		Stream: true, Model: []byte("fast"), Target: []byte("provider/model-1"), MaxTokens: 64000, DefaultMaxTokens: 4096,
		Flags: FlagTools | FlagImages, BodySize: 123456789, Options: json.Value(`{"a":{"b":[1,2]}}`),
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, want %+v", s, want)
	}
	slow, err := read([]byte(own))
	if err != nil || !reflect.DeepEqual(slow, want) {
		t.Errorf("%+v, %v, want %+v", slow, err, want)
	}
}

func TestSummaryInOtherFormats(t *testing.T) {
	for name, edit := range map[string][2]string{
		"no flags, no options":   {`"flags":["tools","images"],"body":123456789,"options":{"a":{"b":[1,2]}}`, `"flags":[],"body":0,"options":{}`},
		"an escape":              {"fast", `f\u0061st`},
		"an escaped quote":       {"fast", `f\"st`},
		"not ASCII":              {"fast", "schnell-größer"},
		"white space":            {`,"time"`, `, "time"`},
		"a member more":          {`"attempt"`, `"more":[1,"2"],"attempt"`},
		"a member less":          {`"attempt":2,`, ``},
		"another order":          {`"time":1789012345678,"attempt":2`, `"attempt":2,"time":1789012345678`},
		"a negative number":      {"1789012345678", "-62135596800000"},
		"a number of 19 digits":  {"1789012345678", "1234567890123456789"},
		"a number beyond 64 bit": {"1789012345678", "123456789012345678901"},
		"a fraction":             {"1789012345678", "1789012345678.5"},
		"no digits":              {"1789012345678", ""},
		"a long name":            {"provider/model-1", strings.Repeat("x", 1000)},
		"an empty name":          {"provider/model-1", ""},
		"null":                   {`true`, `null`},
		"bytes behind it":        {`]}}}`, `]}}}}`},
	} {
		t.Run(name, func(t *testing.T) { agree(t, []byte(strings.Replace(own, edit[0], edit[1], 1))) })
	}
	for n := range len(own) {
		agree(t, []byte(own[:n]))
	}
}

// plain is the part of a summary that quick takes the gateway's word for: digits of its two kinds.
var plain = regexp.MustCompile(`"random":"[0-9a-f]{16}"`)

// agree fails where Parse and the reader of any JSON read different things.
func agree(t *testing.T, doc []byte) {
	t.Helper()
	want, wrong := read(doc)
	var got Summary
	err := got.Parse(doc)
	switch {
	case wrong != nil && err == nil && got.quick(doc):
		// Only what it looks into less than that reader can be wrong: nothing of it can lead further than to nonsense.
	case (err != nil) != (wrong != nil):
		t.Errorf("%s: error %v, want %v", doc, err, wrong)
	case err == nil && plain.Match(doc) && !reflect.DeepEqual(got, want):
		t.Errorf("%s: %+v, want %+v", doc, got, want)
	}
}

func FuzzSummaryForms(f *testing.F) {
	f.Add([]byte(own))
	f.Add([]byte(strings.Replace(own, `"fast"`, `"f\u0061st"`, 1)))
	f.Fuzz(func(t *testing.T, doc []byte) { agree(t, doc) })
}

func BenchmarkSummary(b *testing.B) {
	doc := []byte(own)
	b.Run("own form", func(b *testing.B) {
		var s Summary
		for b.Loop() {
			_ = s.Parse(doc)
		}
	})
	b.Run("any JSON", func(b *testing.B) {
		var s Summary
		var in json.Reader
		for b.Loop() {
			in.Reset(doc)
			s.Read(&in)
		}
	})
}
