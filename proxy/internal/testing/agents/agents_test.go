// Package agents_test runs the tool loops of Go clients against the gateway, as their users write them, with a scripted
// provider (agenttest): results of tools are empty, more tokens are asked for than the model has, and the model thinks
// before every call. Google's Go client reads recorded responses, and a client for registries reads what commands of the
// gateway have pushed. `make test-agents` runs it.
package agents_test

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"

	eino "github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"
	"github.com/sashabaranov/go-openai"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/agenttest"
)

// TestMain runs the tests in the folder of the gateway's module, whose plugins proxytest builds.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// maxTokens is more than the model has.
const maxTokens = 32000

// forEach runs a loop with and without thinking.
func forEach(t *testing.T, loop func(t *testing.T, base, effort string) (answer string)) {
	for name, effort := range map[string]string{"thinking": "high", "plain": ""} {
		t.Run(name, func(t *testing.T) {
			p := agenttest.New(t, "touch", `{"path":"a"}`)
			g := proxytest.Start(t, proxytest.Keys+p.Config("agent"))
			if answer := loop(t, g.URL+"/v1", effort); answer != agenttest.Answer {
				t.Errorf("the agent's answer is %q", answer)
			}
			p.Check(t, 1, effort != "")
		})
	}
}

var parameters = map[string]any{"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string"}}, "required": []string{"path"}}

func newGoOpenAI(base string) *openai.Client {
	c := openai.DefaultConfig(proxytest.Key)
	c.BaseURL = base
	return openai.NewClientWithConfig(c)
}

func goOpenAIRequest(effort string) openai.ChatCompletionRequest {
	return openai.ChatCompletionRequest{
		Model: "agent", MaxTokens: maxTokens, ReasoningEffort: effort,
		Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "Touch two files."}},
		Tools:    []openai.Tool{{Type: "function", Function: &openai.FunctionDefinition{Name: "touch", Parameters: parameters}}},
	}
}

// appendTurn appends the model's message and the results of its calls. An empty result is left out of the JSON.
func appendTurn(q *openai.ChatCompletionRequest, m openai.ChatCompletionMessage) {
	q.Messages = append(q.Messages, m)
	for _, call := range m.ToolCalls {
		q.Messages = append(q.Messages, openai.ChatCompletionMessage{Role: "tool", ToolCallID: call.ID})
	}
}

func TestGoOpenAI(t *testing.T) {
	forEach(t, func(t *testing.T, base, effort string) string {
		client, q := newGoOpenAI(base), goOpenAIRequest(effort)
		for {
			r, err := client.CreateChatCompletion(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			m := r.Choices[0].Message
			if len(m.ToolCalls) == 0 {
				return m.Content
			}
			appendTurn(&q, m)
		}
	})
}

func TestGoOpenAIStreams(t *testing.T) {
	forEach(t, func(t *testing.T, base, effort string) string {
		client, q := newGoOpenAI(base), goOpenAIRequest(effort)
		for {
			s, err := client.CreateChatCompletionStream(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			m := openai.ChatCompletionMessage{Role: "assistant"}
			for {
				chunk, err := s.Recv()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range chunk.Choices {
					m.Content += c.Delta.Content
					m.ReasoningContent += c.Delta.ReasoningContent
					for _, call := range c.Delta.ToolCalls {
						if *call.Index == len(m.ToolCalls) {
							m.ToolCalls = append(m.ToolCalls, openai.ToolCall{ID: call.ID, Type: call.Type})
						}
						have := &m.ToolCalls[*call.Index].Function
						have.Name += call.Function.Name
						have.Arguments += call.Function.Arguments
					}
				}
			}
			s.Close()
			if len(m.ToolCalls) == 0 {
				return m.Content
			}
			appendTurn(&q, m)
		}
	})
}

// newEino returns eino's agent, which runs the loop by itself.
func newEino(t *testing.T, base, effort string) *react.Agent {
	t.Helper()
	limit := maxTokens
	model, err := eino.NewChatModel(t.Context(), &eino.ChatModelConfig{
		BaseURL: base, APIKey: proxytest.Key, Model: "agent", MaxTokens: &limit, ReasoningEffort: eino.ReasoningEffortLevel(effort),
	})
	if err != nil {
		t.Fatal(err)
	}
	type input struct {
		Path string `json:"path"`
	}
	touch, err := utils.InferTool("touch", "Touches a file.", func(context.Context, *input) (string, error) { return "", nil },
		utils.WithMarshalOutput(func(context.Context, any) (string, error) { return "", nil }))
	if err != nil {
		t.Fatal(err)
	}
	agent, err := react.NewAgent(t.Context(), &react.AgentConfig{
		ToolCallingModel: model, ToolsConfig: compose.ToolsNodeConfig{Tools: []tool.BaseTool{touch}},
		// Thinking comes before the call: the default looks at the first chunk only.
		StreamToolCallChecker: func(_ context.Context, s *schema.StreamReader[*schema.Message]) (bool, error) {
			defer s.Close()
			for {
				m, err := s.Recv()
				if errors.Is(err, io.EOF) {
					return false, nil
				}
				if err != nil || len(m.ToolCalls) > 0 {
					return err == nil, err
				}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

func TestEino(t *testing.T) {
	forEach(t, func(t *testing.T, base, effort string) string {
		m, err := newEino(t, base, effort).Generate(t.Context(), []*schema.Message{schema.UserMessage("Touch two files.")})
		if err != nil {
			t.Fatal(err)
		}
		return m.Content
	})
}

func TestEinoStreams(t *testing.T) {
	forEach(t, func(t *testing.T, base, effort string) string {
		s, err := newEino(t, base, effort).Stream(t.Context(), []*schema.Message{schema.UserMessage("Touch two files.")})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		text := ""
		for {
			m, err := s.Recv()
			if errors.Is(err, io.EOF) {
				return text
			}
			if err != nil {
				t.Fatal(err)
			}
			text += m.Content
		}
	})
}
