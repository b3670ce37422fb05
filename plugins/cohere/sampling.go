package cohere

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// sampling contains the client's sampling parameters.
type sampling struct {
	temperature, topP, topK, frequency, presence, seed json.Value
}

// bound is a member with its name and range in the API. The ranges are narrower than the OpenAI API's.
type bound struct {
	name, native      string
	low, high         float64
	lowText, highText string // low and high as JSON
	omitLow           bool   // low is the default, and is not written
}

var bounds = [...]bound{
	{name: "temperature", native: "temperature", low: 0, high: 1, lowText: "0", highText: "1"},
	{name: "top_p", native: "p", low: 0.01, high: 0.99, lowText: "0.01", highText: "0.99"},
	{name: "top_k", native: "k", low: 0, high: 500, lowText: "0", highText: "500", omitLow: true},
	{name: "frequency_penalty", native: "frequency_penalty", low: 0, high: 1, lowText: "0", highText: "1", omitLow: true},
	{name: "presence_penalty", native: "presence_penalty", low: 0, high: 1, lowText: "0", highText: "1", omitLow: true},
}

// write writes the members under their names in the API.
func (s *sampling) write(t *translation) error {
	for i, value := range [...]json.Value{s.temperature, s.topP, s.topK, s.frequency, s.presence} {
		if err := bounds[i].write(t, value); err != nil {
			return err
		}
	}
	switch {
	case !s.seed.Exists():
	case s.seed[0] == '-':
		t.warnDropped("seed") // the API rejects negative seeds
	default:
		t.w.Name("seed")
		t.w.Raw(s.seed)
	}
	return nil
}

func (b *bound) write(t *translation, value json.Value) error {
	if !value.Exists() {
		return nil
	}
	f, ok := value.Float()
	switch {
	case !ok:
		t.warnDropped(b.name)
		return nil
	case f >= b.low && f <= b.high:
	case t.o.rejectOutOfRange:
		return sdk.Refuse(b.name, "This provider supports values from "+b.lowText+" to "+b.highText+".")
	default:
		t.r.Warn(abi.WarnClamped, b.name)
		if f < b.low {
			f, value = b.low, json.Value(b.lowText)
		} else {
			f, value = b.high, json.Value(b.highText)
		}
	}
	if b.omitLow && f == b.low {
		return nil
	}
	t.w.Name(b.native)
	t.w.Raw(value)
	return nil
}
