package openai

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// answers is the directory with the non-streaming responses that clients receive for recorded responses of compatible
// providers.
const answers = "../../proxy/internal/openai/native/testdata/"

// secondTurn is a conversation whose second request was recorded.
type secondTurn struct {
	preset string // empty for OpenAI
	first  string // the client's first request; the second repeats its messages and other members
	answer string // the response to it, below answers
	more   string // the messages that follow
	target string

	// The paths at which the request that is built differs from the recording, with both values.
	differs map[string]string
}

const (
	assistant = `{"role":"system","content":"You are a helpful assistant"},`
	weather   = `"tools":[{"type":"function","function":{"name":"weather","strict":false,"description":"Get weather information for a location","parameters":{"type":"object","properties":{"location":{"type":"string","description":"the city"}},"required":["location"]}}}]`
	sums      = `"tools":[
		{"type":"function","function":{"name":"add","strict":false,"description":"Add two numbers","parameters":{"type":"object","properties":{"a":{"type":"integer","description":"first number"},"b":{"type":"integer","description":"second number"}},"required":["a","b"]}}},
		{"type":"function","function":{"name":"multiply","strict":false,"description":"Multiply two numbers","parameters":{"type":"object","properties":{"a":{"type":"integer","description":"first number"},"b":{"type":"integer","description":"second number"}},"required":["a","b"]}}}]`
)

// The recorded client libraries omitted members that the OpenAI API sends as null. The providers document both.
var nulls = map[string]string{
	"messages[2].content": "null for absent",
	"messages[2].refusal": "null for absent",
}

var secondTurns = map[string]secondTurn{
	"deepseek-reasoning": {
		preset: "deepseek", target: "deepseek-reasoner",
		first:  `{"model":"m","messages":[{"role":"user","content":"What is 5 + 3?"}],"stream":false,"reasoning_effort":"medium"}`,
		answer: "deepseek/reasoning-t1",
		more:   `[{"role":"user","content":"Now multiply that by 2"}]`,
		differs: map[string]string{
			"messages[1].refusal": "null for absent",
			// The recorded client sends the text under two names to support several providers. DeepSeek documents one
			// of them.
			"messages[1].reasoning": `absent for "We are asked: \"What is 5 + 3?\" This is a simple arithmetic problem. The answer is 8."`,
		},
	},
	"mistral-thinking": {
		preset: "mistral", target: "mistral-small-latest",
		first:  `{"model":"m","messages":[{"role":"user","content":"What is 12 * 12? Answer with just the number."}],"stream":false,"reasoning_effort":"high"}`,
		answer: "mistral/thinking-t1",
		more:   `[{"role":"user","content":"Now add 10 to that. Answer with just the number."}]`,
	},
	"openai-stream-tool": {
		target:  "gpt-4o-mini",
		first:   `{"model":"m","messages":[` + assistant + `{"role":"user","content":"What's the weather in Florence,Italy?"}],"max_tokens":4000,"stream":true,"tool_choice":"auto",` + weather + `}`,
		answer:  "openai/stream-tool-t1",
		more:    `[{"role":"tool","tool_call_id":"call_qLFv8oQOs68qRuEVmG8TuEJp","content":"40 C"}]`,
		differs: nulls,
	},
	"openai-parallel-tools": {
		target:  "gpt-4o-mini",
		first:   `{"model":"m","messages":[{"role":"system","content":"You are a helpful assistant. CRITICAL: Always use both add and multiply at the same time ALWAYS."},{"role":"user","content":"Add and multiply the number 2 and 3"}],"max_tokens":4000,"tool_choice":"auto",` + sums + `}`,
		answer:  "openai/parallel-tools-t1",
		more:    `[{"role":"tool","tool_call_id":"call_2wt6qUGrlxczUadZYf3qXyH0","content":"5"},{"role":"tool","tool_call_id":"call_vZOWZaH7tzu0rLZeogtafvrf","content":"6"}]`,
		differs: nulls,
	},
}

// TestRecordedSecondTurns plays a client that sends back the message that it received from the gateway. The upstream
// must receive the same request as in the recorded conversation.
func TestRecordedSecondTurns(t *testing.T) {
	files, err := filepath.Glob("testdata/requests/*-t2.json")
	if err != nil || len(files) != len(secondTurns) {
		t.Fatalf("%d recorded requests, %d in the table, %v", len(files), len(secondTurns), err)
	}
	for name, turn := range secondTurns {
		t.Run(name, func(t *testing.T) {
			var request, answer map[string]any
			var more []any
			unmarshal(t, []byte(turn.first), &request)
			unmarshal(t, read(t, answers+turn.answer+".whole.json"), &answer)
			unmarshal(t, []byte(turn.more), &more)
			message := answer["choices"].([]any)[0].(map[string]any)["message"]
			request["messages"] = append(append(request["messages"].([]any), message), more...)
			second, err := json.Marshal(request)
			if err != nil {
				t.Fatal(err)
			}

			s := suite
			if turn.preset != "" {
				s.Use = preset(t, turn.preset)
			}
			v := plugintest.Vector{Target: turn.target, Request: second, Options: []byte(s.Use.Settings), Status: 200}
			result := v.Run(s.Bind(t, plugintest.Native), false)
			_, body, _ := strings.Cut(result.Request, "\n\n")
			if body == "" || result.Warnings != "" {
				t.Fatalf("warnings %q, answer %s", result.Warnings, result.Response)
			}
			var built, recorded map[string]any
			unmarshal(t, []byte(body), &built)
			unmarshal(t, read(t, "testdata/requests/"+name+"-t2.json"), &recorded)
			plugintest.CheckDifferences(t, built, recorded, turn.differs)
		})
	}
}

func read(tb testing.TB, file string) []byte {
	tb.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func unmarshal(tb testing.TB, p []byte, v any) {
	tb.Helper()
	if err := json.Unmarshal(p, v); err != nil {
		tb.Fatalf("%v: %s", err, p)
	}
}
