package ollama

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func FuzzResponse(f *testing.F) { suite.FuzzResponses(f, "application/x-ndjson", plugintest.FuzzUse{}) }

// FuzzRequest sends every request that the gateway accepts to the plugin. If the plugin accepts it as well, it must
// become a request that follows the API's rules.
func FuzzRequest(f *testing.F) {
	suite.FuzzRequests(f, checkRequest,
		plugintest.FuzzUse{},
		plugintest.FuzzUse{Options: `{"unknown":"refuse","highest_effort":"max","think_levels":false}`},
		plugintest.FuzzUse{Options: `{"options":{"num_ctx":8192,"temperature":0.5,"stop":["x"]},"keep_alive":"5m","truncate":false,"shift":true}`},
	)
}

// checkRequest checks the rules of the API (https://docs.ollama.com/api/chat) that a wrong translation would violate.
func checkRequest(t *testing.T, _ int, sent string) {
	t.Helper()
	var body struct {
		Model    string
		Stream   *bool
		Messages []struct {
			Role, Thinking string
			Content        *string
			Images         []string
			ToolCalls      []struct {
				ID       string
				Function struct {
					Name      string
					Arguments map[string]any
				}
			} `json:"tool_calls"`
			ToolName   string `json:"tool_name"`
			ToolCallID string `json:"tool_call_id"`
		}
		Tools []struct {
			Function struct {
				Name       string
				Parameters map[string]any
			}
		}
		Options map[string]any
	}
	d := jsontext.NewDecoder(strings.NewReader(sent)) // rejects duplicate members
	if err := d.SkipValue(); err != nil {
		t.Fatalf("%v: %s", err, sent)
	}
	if err := json.Unmarshal([]byte(sent), &body); err != nil {
		t.Fatalf("%v: %s", err, sent)
	}
	if body.Model != "m" || body.Stream == nil || len(body.Messages) == 0 {
		t.Errorf("model %q, %d messages: %s", body.Model, len(body.Messages), sent)
	}
	for _, f := range body.Tools {
		if f.Function.Name == "" || len(f.Function.Parameters) == 0 {
			t.Errorf("tool without a name or schema: %s", sent)
		}
	}
	called := make(map[string]string)
	for i, m := range body.Messages {
		if m.Content == nil {
			t.Errorf("message %d has no content: %s", i, sent)
		}
		for _, image := range m.Images {
			if image == "" || strings.HasPrefix(image, "data:") {
				t.Errorf("message %d has an invalid image %.20q: %s", i, image, sent)
			}
		}
		if len(m.ToolCalls) > 0 {
			clear(called)
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" || c.Function.Name == "" || c.Function.Arguments == nil {
				t.Errorf("message %d has an invalid call %+v: %s", i, c, sent)
			}
			called[c.ID] = c.Function.Name
		}
		switch m.Role {
		case "system", "user":
		case "assistant":
			if *m.Content == "" && m.Thinking == "" && m.ToolCalls == nil {
				t.Errorf("message %d has no content, thinking or calls: %s", i, sent)
			}
		case "tool":
			if name, ok := called[m.ToolCallID]; !ok || name != m.ToolName {
				t.Errorf("message %d is a result of an unknown call of %q: %s", i, m.ToolName, sent)
			}
		default:
			t.Errorf("message %d has the role %q: %s", i, m.Role, sent)
		}
	}
}
