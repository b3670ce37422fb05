package sdk

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Flags are features of a request on which a plugin can decide without reading the body.
type Flags uint32

// The flags, with their names in the summary document.
const (
	FlagTools            Flags = 1 << iota // tools: the request has tools
	FlagToolHistory                        // tool_history: a message is a tool result or contains tool calls
	FlagThinking                           // thinking: the member thinking requests reasoning
	FlagReasoning                          // reasoning: reasoning_effort is set
	FlagReasoningHistory                   // reasoning_history: a message contains reasoning of an earlier turn
	FlagImages                             // images: a message contains an image
	FlagFiles                              // files: a message contains a file or a video
	FlagAudio                              // audio: a message contains audio, or audio output is requested
	FlagResponseFormat                     // response_format: a format other than text is requested
	FlagLogprobs                           // logprobs: logprobs are requested
	FlagParallelTools                      // parallel_tools: parallel_tool_calls is set
	FlagCacheControl                       // cache_control: a message, content part or tool has one
)

// Summary describes a request without its body. Its slices are valid during the call.
type Summary struct {
	RequestID    []byte
	Time         int64  // Unix time in milliseconds
	Attempt      int64  // 1 for the first target that is tried, 2 for the next
	Random       uint64 // random bits, independent of the request
	Stream       bool   // the client requests a stream
	IncludeUsage bool   // the client requests usage in the stream
	Model        []byte // in the client's request
	Target       []byte // the provider's name for the model; empty for a router

	MaxTokens        int64 // the model's limit; 0 if unknown
	DefaultMaxTokens int64 // for requests that set none; 0 if unknown

	// Form is the API whose request the body is: abi.FormChat, or one that the provider has declared (provider.Former). ClientForm is
	// the API that the client uses; the gateway has converted the request if it is another one. FormUnknown stands for an API
	// that this SDK does not know.
	Form, ClientForm abi.Forms
	Betas            json.Value // array: the words of the header anthropic-beta of a client that uses Messages

	Flags    Flags
	BodySize int64      // the size of the client's body in bytes
	Options  json.Value // the provider's options, overridden by the target's; an object
}

// FormUnknown is a form that this SDK does not know.
const FormUnknown abi.Forms = -1

// Has reports whether all of the flags are set.
func (s *Summary) Has(f Flags) bool { return s.Flags&f == f }
