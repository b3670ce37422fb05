package gemini

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// config begins a member of generationConfig, and that with its first member.
func (t *translation) config(name string) {
	if !t.configured {
		t.configured = true
		t.w.Name("generationConfig")
		t.w.Object()
	}
	t.w.Name(name)
}

// configRaw writes a member of generationConfig as the client gave it, if it did.
func (t *translation) configRaw(name string, value json.Value) {
	if value.Exists() {
		t.config(name)
		t.w.Raw(value)
	}
}

// configInt writes a member of generationConfig unless it is 0.
func (t *translation) configInt(name string, n int64) {
	if n != 0 {
		t.config(name)
		t.w.Int(n)
	}
}

// writeConfig writes generationConfig.
func (t *translation) writeConfig() error {
	t.configInt("maxOutputTokens", t.limit())
	t.configRaw("temperature", t.temperature)
	t.configRaw("topP", t.topP)
	t.configRaw("topK", t.topK)
	t.configRaw("seed", t.seed)
	t.configRaw("presencePenalty", t.presence)
	t.configRaw("frequencyPenalty", t.frequent)
	t.writeStop()
	if t.n > 1 {
		t.configInt("candidateCount", t.n)
	}
	if t.logprobs {
		t.config("responseLogprobs")
		t.w.Bool(true)
		t.configInt("logprobs", t.topLogprobs)
	}
	if err := t.writeModalities(); err != nil {
		return err
	}
	if err := t.writeForm(); err != nil {
		return err
	}
	if err := t.writeThinking(); err != nil {
		return err
	}
	if t.configured {
		t.w.EndObject()
	}
	return nil
}

// limit is the most tokens that the answer may have, 0 for the model's own.
func (t *translation) limit() int64 {
	switch {
	case t.MaxCompletionTokens > 0:
		return t.MaxCompletionTokens
	case t.MaxTokens > 0:
		return t.MaxTokens
	}
	return max(t.r.DefaultMaxTokens, 0)
}

// writeStop writes the stop sequences. The provider refuses an empty one, which means nothing.
func (t *translation) writeStop() {
	if !t.Stop.Exists() {
		return
	}
	open := false
	put := func(inside []byte) {
		if len(inside) == 0 {
			t.drop(true, "stop")
			return
		}
		if !open {
			open = true
			t.config("stopSequences")
			t.w.Array()
		}
		t.w.Inside(inside)
	}
	if t.Stop.Kind() == json.String {
		put(t.Stop.Inside())
	} else {
		var r json.Reader
		r.Reset(t.Stop)
		for a := r.Array(); a.Next(); {
			put(r.Inside())
		}
	}
	if open {
		t.w.EndArray()
	}
}

// writeModalities asks for images where the client does. Text comes anyway.
func (t *translation) writeModalities() error {
	var r json.Reader
	text, image := false, false
	r.Reset(t.modalities)
	for a := r.Array(); a.Next(); {
		switch string(r.Text()) {
		case "text":
			text = true
		case "image":
			image = true
		default:
			return sdk.Refuse("modalities", "This provider answers with text and images.")
		}
	}
	if !image {
		return nil
	}
	t.config("responseModalities")
	t.w.Array()
	if text {
		t.w.String("TEXT")
	}
	t.w.String("IMAGE")
	t.w.EndArray()
	return nil
}

// writeForm writes the form that the answer is to have.
func (t *translation) writeForm() error {
	kind := t.ResponseFormat.Get("type")
	switch {
	case !kind.Exists() || kind.Is("text"):
		return nil
	case kind.Is("json_object"), kind.Is("json_schema"):
	default:
		return sdk.Refuse("response_format.type", "This provider has no such form of answer.")
	}
	t.config("responseMimeType")
	t.w.String("application/json")
	schema := t.ResponseFormat.Get("json_schema").Get("schema")
	if schema.Kind() != json.Object || !kind.Is("json_schema") {
		return nil
	}
	if t.o.openAPI {
		t.config("responseSchema")
		return t.writeReduced(schema, "response_format.json_schema.schema")
	}
	t.configRaw("responseJsonSchema", schema)
	return nil
}
