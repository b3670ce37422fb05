package gemini

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// beginConfig writes the name of a member of generationConfig, after opening generationConfig if it is the first one.
func (t *translation) beginConfig(name string) {
	if !t.configured {
		t.configured = true
		t.w.Name("generationConfig")
		t.w.Object()
	}
	t.w.Name(name)
}

// writeConfigRaw writes a member of generationConfig with the client's value, if there is one.
func (t *translation) writeConfigRaw(name string, value json.Value) {
	if value.Exists() {
		t.beginConfig(name)
		t.w.Raw(value)
	}
}

// writeConfigInt writes a member of generationConfig unless it is 0.
func (t *translation) writeConfigInt(name string, n int64) {
	if n != 0 {
		t.beginConfig(name)
		t.w.Int(n)
	}
}

// writeConfig writes generationConfig.
func (t *translation) writeConfig() error {
	t.writeConfigInt("maxOutputTokens", t.limit())
	t.writeConfigRaw("temperature", t.temperature)
	t.writeConfigRaw("topP", t.topP)
	t.writeConfigRaw("topK", t.topK)
	t.writeConfigRaw("seed", t.seed)
	t.writeConfigRaw("presencePenalty", t.presence)
	t.writeConfigRaw("frequencyPenalty", t.frequent)
	t.writeStop()
	if t.n > 1 {
		t.writeConfigInt("candidateCount", t.n)
	}
	if t.logprobs {
		t.beginConfig("responseLogprobs")
		t.w.Bool(true)
		t.writeConfigInt("logprobs", t.topLogprobs)
	}
	if err := t.writeModalities(); err != nil {
		return err
	}
	if err := t.writeFormat(); err != nil {
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

// limit returns the maximum number of output tokens, 0 for the model's default.
func (t *translation) limit() int64 {
	switch {
	case t.MaxCompletionTokens > 0:
		return t.MaxCompletionTokens
	case t.MaxTokens > 0:
		return t.MaxTokens
	}
	return max(t.r.DefaultMaxTokens, 0)
}

// writeStop writes the stop sequences, except empty ones, which the provider rejects.
func (t *translation) writeStop() {
	if !t.Stop.Exists() {
		return
	}
	open := false
	translate.StopSequences(t.Stop, func(inside []byte) {
		if len(inside) == 0 {
			t.warnDropped(true, "stop")
			return
		}
		if !open {
			open = true
			t.beginConfig("stopSequences")
			t.w.Array()
		}
		t.w.Inside(inside)
	})
	if open {
		t.w.EndArray()
	}
}

// writeModalities requests images if the client does. Text is always returned.
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
			return sdk.Refuse("modalities", "This provider returns text and images only.")
		}
	}
	if !image {
		return nil
	}
	t.beginConfig("responseModalities")
	t.w.Array()
	if text {
		t.w.String("TEXT")
	}
	t.w.String("IMAGE")
	t.w.EndArray()
	return nil
}

// writeFormat writes the response format.
func (t *translation) writeFormat() error {
	kind := t.ResponseFormat.Get("type")
	switch {
	case !kind.Exists() || kind.Is("text"):
		return nil
	case kind.Is("json_object"), kind.Is("json_schema"):
	default:
		return sdk.Refuse("response_format.type", "This provider does not support this response format.")
	}
	t.beginConfig("responseMimeType")
	t.w.String("application/json")
	schema := t.ResponseFormat.Get("json_schema").Get("schema")
	if schema.Kind() != json.Object || !kind.Is("json_schema") {
		return nil
	}
	if t.o.openAPI {
		t.beginConfig("responseSchema")
		return t.writeReduced(schema, "response_format.json_schema.schema")
	}
	t.writeConfigRaw("responseJsonSchema", schema)
	return nil
}
