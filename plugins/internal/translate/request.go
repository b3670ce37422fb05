package translate

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Request holds members of a client's request that providers read alike. Its slices are ranges of the client's body.
type Request struct {
	Tools, ToolChoice, ResponseFormat, Stop, Thinking json.Value
	MaxTokens, MaxCompletionTokens                    int64
	Effort                                            []byte // reasoning_effort
	Serial                                            bool   // parallel_tool_calls is false
}

// Member is a member that is passed on as it is.
type Member struct{ Name, Value []byte }

// Read reads the member at hand, which is not null; known is false for one that the provider has to read itself. Members
// are refused that ask for more than one choice, for anything but text, or for the functions that tools have replaced.
func (m *Request) Read(in *json.Reader) (known bool, err error) {
	switch name := string(in.Name()); name {
	case "model", "stream", "stream_options":
		// The gateway's own.
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
			return true, sdk.Refuse("n", "This provider gives one choice at a time.")
		}
	case "modalities":
		for a := in.Array(); a.Next(); {
			if string(in.Text()) != "text" {
				return true, sdk.Refuse("modalities", "This provider answers with text.")
			}
		}
	case "functions", "function_call":
		return true, sdk.Refuse(name, "This provider takes tools in the place of functions.")
	default:
		return false, nil
	}
	return true, nil
}

// Limit is the most tokens that the response may have: what the client asked for, else the configured default within the
// model's own limit, else 0.
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
