package bedrock

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// inference contains the sampling parameters to send. nil means omitted.
type inference struct{ temperature, topP, topK json.Value }

// planSampling returns the client's temperature, top_p and top_k as far as the model and its thinking allow. The API's
// temperature goes up to 1, the OpenAI API's up to 2.
func (t *translation) planSampling(plan *thinkingPlan) (s inference, err error) {
	s = inference{t.temperature, t.topP, t.topK}
	temperature, hasTemperature := t.temperature.Float()
	topP, hasTopP := t.topP.Float()
	switch {
	case t.o.family == claude && t.o.adaptive, t.o.family == nova && plan.on && efforts[plan.effort].level == "high":
		// A temperature and a top_p of 1 are the fixed values of such a model.
		t.warnDropped(hasTemperature && temperature != 1, "temperature")
		t.warnDropped(hasTopP && topP != 1, "top_p")
		t.warnDropped(s.topK.Exists(), "top_k")
		return inference{}, nil
	case t.o.family == claude && plan.on:
		// Thinking requires a temperature of 1, no top_k, and a top_p of at least 0.95.
		t.warnDropped(hasTemperature && temperature != 1, "temperature")
		t.warnDropped(s.topK.Exists(), "top_k")
		s.temperature, s.topK = nil, nil
		if hasTopP && topP < 0.95 {
			t.warnDropped(true, "top_p")
			s.topP = nil
		}
		return s, nil
	}
	if temperature > 1 {
		if t.o.rejectClamped {
			return s, sdk.Refuse("temperature", "This provider supports a temperature from 0 to 1.")
		}
		t.r.Warn(abi.WarnClamped, "temperature")
		s.temperature = json.Value("1")
	}
	if hasTemperature && hasTopP && !t.o.bothSampling() {
		t.warnDropped(true, "top_p")
		s.topP = nil
	}
	if s.topK.Exists() && t.o.family != claude && t.o.family != nova {
		t.warnDropped(true, "top_k")
		s.topK = nil
	}
	return s, nil
}

// writeInference writes inferenceConfig. top_k has no place in it; it is left in t.topK for writeFields.
func (t *translation) writeInference(plan *thinkingPlan) error {
	s, err := t.planSampling(plan)
	if err != nil {
		return err
	}
	t.topK = s.topK
	w := t.w
	open := false
	name := func(name string) {
		if !open {
			open = true
			w.Name("inferenceConfig")
			w.Object()
		}
		w.Name(name)
	}
	if t.limit > 0 {
		name("maxTokens")
		w.Int(t.limit)
	}
	if s.temperature.Exists() {
		name("temperature")
		w.Raw(s.temperature)
	}
	if s.topP.Exists() {
		name("topP")
		w.Raw(s.topP)
	}
	stops := false
	translate.StopSequences(t.Stop, func(inside []byte) {
		// Claude rejects a stop sequence of only white space, and an empty one is useless for any model.
		if len(inside) == 0 || t.o.family == claude && translate.Blank(inside) {
			t.warnDropped(true, "stop")
			return
		}
		if !stops {
			stops = true
			name("stopSequences")
			w.Array()
		}
		w.Inside(inside)
	})
	if stops {
		w.EndArray()
	}
	if open {
		w.EndObject()
	}
	return nil
}

// beginField begins a member of additionalModelRequestFields, which contains model-specific parameters.
func (t *translation) beginField(name string) {
	if !t.extended {
		t.extended = true
		t.w.Name("additionalModelRequestFields")
		t.w.Object()
	}
	t.own = append(t.own, name)
	t.w.Name(name)
}

// writeFields writes additionalModelRequestFields: thinking, top_k, and the operator's option fields.
func (t *translation) writeFields(plan *thinkingPlan) {
	w := t.w
	switch t.o.family {
	case claude:
		t.writeThinking(plan)
		if t.topK.Exists() {
			t.beginField("top_k")
			w.Raw(t.topK)
		}
	case nova:
		if plan.on {
			t.beginField("reasoningConfig")
			w.Object()
			w.Name("type")
			w.String("enabled")
			w.Name("maxReasoningEffort")
			w.String(efforts[plan.effort].level)
			w.EndObject()
		}
		if t.topK.Exists() {
			t.beginField("inferenceConfig")
			w.Object()
			w.Name("topK")
			w.Raw(t.topK)
			w.EndObject()
		}
	case gptOSS:
		if plan.on {
			t.beginField("reasoning_effort")
			w.String(efforts[plan.effort].level)
		}
	}
	var r json.Reader
	r.Reset(t.o.fields)
	for o := r.Object(); o.Next(); {
		if name := string(r.Name()); !t.hasField(name) {
			t.beginField(name)
			w.Raw(r.Raw())
		}
	}
	if t.extended {
		w.EndObject()
	}
}

func (t *translation) hasField(name string) bool {
	for _, own := range t.own {
		if own == name {
			return true
		}
	}
	return false
}

// writeThinking writes the thinking parameters of a Claude model.
func (t *translation) writeThinking(plan *thinkingPlan) {
	if !plan.on && !plan.off {
		return
	}
	w := t.w
	t.beginField("thinking")
	w.Object()
	w.Name("type")
	switch {
	case plan.off:
		w.String("disabled")
	case plan.budget > 0:
		w.String("enabled")
		w.Name("budget_tokens")
		w.Int(plan.budget)
	default:
		w.String("adaptive")
	}
	// Models with a budget show a summary by default, and not all clouds accept the member for them.
	if display := t.Thinking.Get("display").Inside(); display != nil && plan.on && (plan.budget == 0 || string(display) != "summarized") {
		w.Name("display")
		w.Inside(display)
	}
	w.EndObject()
	if plan.on && plan.budget == 0 && plan.effort >= 0 {
		t.beginField("output_config")
		w.Object()
		w.Name("effort")
		w.String(efforts[plan.effort].native)
		w.EndObject()
	}
}
