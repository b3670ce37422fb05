package translate

import (
	"bytes"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Request holds the members of a client's request that all providers read in the same way. Its slices share the memory
// of the client's body.
type Request struct {
	Tools, ToolChoice, ResponseFormat, Stop, Thinking json.Value
	MaxTokens, MaxCompletionTokens                    int64
	Effort                                            []byte // reasoning_effort
	Serial                                            bool   // parallel_tool_calls is false
}

// Member is a member of the client's request that is passed on unchanged.
type Member struct{ Name, Value []byte }

// Read reads the current member, which is not null. known is false if the plugin must read the member itself. Read
// rejects more than one choice, and modalities other than text.
func (m *Request) Read(in *json.Reader) (known bool, err error) {
	switch string(in.Name()) {
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
		m.ToolChoice = ToolChoice(in.Raw())
	case "parallel_tool_calls":
		parallel, ok := in.Bool()
		m.Serial = ok && !parallel
	case "response_format":
		m.ResponseFormat = in.Raw()
	case "thinking":
		m.Thinking = in.Raw()
	case "reasoning_effort":
		m.Effort = Effort(in.Text())
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
	default:
		return false, nil
	}
	return true, nil
}

// ToolChoice converts a tool choice to the values of the OpenAI API.
func ToolChoice(choice json.Value) json.Value {
	if choice.Is("any") {
		return json.Value(`"required"`)
	}
	return choice
}

// ForcesTool reports whether a tool choice forces a tool call.
func ForcesTool(choice json.Value) bool {
	return choice.Is("required") || choice.Get("function").Kind() == json.Object
}

// Effort returns a reasoning_effort, or nil for "default", which requests no particular effort.
func Effort(text []byte) []byte {
	if string(text) == "default" {
		return nil
	}
	return text
}

// Arguments returns the arguments of an earlier tool call for a provider that expects an object. No arguments become an
// empty object. So does text that is not a JSON object, which a model may have written or which was truncated with the
// response; ok is then false, and the plugin should warn. ok is also false if an unpaired surrogate had to be replaced.
// If text has escape sequences it must not be part of the client's body, because it is repaired in place.
func Arguments(text []byte) (object json.Value, ok bool) {
	switch object = trimJSONSpace(text); {
	case len(object) == 0:
		return json.Value("{}"), true
	case object.Kind() != json.Object || !object.Valid():
		return json.Value("{}"), false
	}
	return object, !repairSurrogates(object)
}

// repairSurrogates replaces the escape sequences of unpaired surrogates in a JSON document by that of U+FFFD, which has
// the same length. Providers reject the whole request because of a single unpaired surrogate.
func repairSurrogates(doc []byte) (repaired bool) {
	for i := bytes.IndexByte(doc, '\\'); i >= 0 && i < len(doc); {
		switch kind := surrogateAt(doc, i); {
		case kind == highSurrogate && surrogateAt(doc, i+6) == lowSurrogate:
			i += 12
		case kind != noSurrogate:
			copy(doc[i:], `\ufffd`)
			repaired = true
			i += 6
		default:
			i += 2
		}
		next := bytes.IndexByte(doc[min(i, len(doc)):], '\\')
		if next < 0 {
			break
		}
		i += next
	}
	return repaired
}

type surrogate uint8

const (
	noSurrogate surrogate = iota
	highSurrogate
	lowSurrogate
)

// surrogateAt returns the kind of surrogate that the escape sequence at i stands for.
func surrogateAt(doc []byte, i int) surrogate {
	if i+6 > len(doc) || doc[i] != '\\' || doc[i+1] != 'u' || doc[i+2]|0x20 != 'd' {
		return noSurrogate
	}
	switch c := doc[i+3] | 0x20; {
	case c == '8', c == '9', c == 'a', c == 'b':
		return highSurrogate
	case 'c' <= c && c <= 'f':
		return lowSurrogate
	}
	return noSurrogate
}

// trimJSONSpace trims white space as defined by JSON.
func trimJSONSpace(s []byte) []byte {
	for len(s) > 0 && isJSONSpace(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isJSONSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isJSONSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// Limit returns the maximum number of output tokens: the client's limit, or else the configured default, capped by the
// model's limit. It returns 0 if neither is set.
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
