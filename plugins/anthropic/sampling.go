package anthropic

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// writeSampling writes temperature, top_p and top_k as far as the model and its thinking allow. The provider's
// temperature goes up to 1, the OpenAI API's up to 2.
func (t *translation) writeSampling(thinks bool) error {
	if t.temperature == nil && t.topP == nil && t.topK == nil {
		return nil
	}
	w := t.w
	temperature, hasTemperature := t.temperature.Float()
	topP, hasTopP := t.topP.Float()
	if t.o.adaptive {
		// A temperature and a top_p of 1 are the fixed values of such a model.
		t.warnDropped(hasTemperature && temperature != 1, "temperature")
		t.warnDropped(hasTopP && topP != 1, "top_p")
		t.warnDropped(t.topK.Exists(), "top_k")
		return nil
	}
	if thinks {
		// Thinking requires a temperature of 1, no top_k, and a top_p of at least 0.95.
		t.warnDropped(hasTemperature && temperature != 1, "temperature")
		t.warnDropped(t.topK.Exists(), "top_k")
		if hasTopP && (topP < 0.95 || topP > 1) {
			t.warnDropped(true, "top_p")
			hasTopP = false
		}
		if hasTopP {
			w.Name("top_p")
			w.Raw(t.topP)
		}
		return nil
	}
	if hasTemperature {
		value := []byte(t.temperature)
		if temperature > 1 {
			if t.o.rejectClamped {
				return sdk.Refuse("temperature", "This provider supports a temperature from 0 to 1.")
			}
			t.r.Warn(abi.WarnClamped, "temperature")
			value = []byte{'1'}
		}
		w.Name("temperature")
		w.Raw(value)
	}
	if hasTopP {
		if hasTemperature && !t.o.bothSampling {
			t.warnDropped(true, "top_p")
		} else {
			w.Name("top_p")
			w.Raw(t.topP)
		}
	}
	if t.topK.Exists() {
		w.Name("top_k")
		w.Raw(t.topK)
	}
	return nil
}
