package translate

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Request holds the members of a client's request that all providers read alike. Its slices alias the client's body.
type Request struct {
	Tools, ToolChoice, ResponseFormat, Stop, Thinking json.Value
	MaxTokens, MaxCompletionTokens                    int64
	Effort                                            []byte // reasoning_effort
	Serial                                            bool   // parallel_tool_calls is false
}

// Member is a member that is passed on unchanged.
type Member struct{ Name, Value []byte }

// Read reads the current member, which is not null; known is false for one that the plugin must read itself. It refuses
// more than one choice, modalities other than text, and the deprecated functions.
func (m *Request) Read(in *json.Reader) (known bool, err error) {
	switch name := string(in.Name()); name {
	case "model", "stream", "stream_options":
		// Handled by the gateway.
	case "max_tokens":
		m.MaxTokens, _ = in.Int()
	case "max_completion_tokens":
		m.MaxCompletionTokens, _ = in.Int()
	case "stop":
		m.Stop = in.Raw()
	case "tools":
		m.Tools = in.Raw()
	case "tool_choice":
		m.ToolChoice = in.Raw()
	case "parallel_tool_calls":
		parallel, ok := in.Bool()
		m.Serial = ok && !parallel
	case "response_format":
		m.ResponseFormat = in.Raw()
	case "thinking":
		m.Thinking = in.Raw()
	case "reasoning_effort":
		m.Effort = in.Text()
	case "n":
		if n, ok := in.Int(); !ok || n != 1 {
			return true, sdk.Refuse("n", "This provider supports n = 1 only.")
		}
	case "modalities":
		for a := in.Array(); a.Next(); {
			if string(in.Text()) != "text" {
				return true, sdk.Refuse("modalities", "This provider returns text only.")
			}
		}
	case "functions", "function_call":
		return true, sdk.Refuse(name, "This provider does not support functions; use tools.")
	default:
		return false, nil
	}
	return true, nil
}

// Limit returns the maximum number of output tokens: the client's, else the configured default within the model's own
// limit, else 0.
func (m *Request) Limit(s *sdk.Summary) int64 {
	switch {
	case m.MaxCompletionTokens > 0:
		return m.MaxCompletionTokens
	case m.MaxTokens > 0:
		return m.MaxTokens
	case s.MaxTokens > 0:
		return min(s.DefaultMaxTokens, s.MaxTokens)
	}
	return s.DefaultMaxTokens
}
