package sdk

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Flags are features of a request that a plugin can check without reading the body.
type Flags uint32

// The flags, with their names in the summary document.
const (
	FlagTools            Flags = 1 << iota // tools: the request has tools
	FlagToolHistory                        // tool_history: a message is a tool result or contains tool calls
	FlagThinking                           // thinking: reasoning is requested with the member thinking
	FlagReasoning                          // reasoning: reasoning_effort is set
	FlagReasoningHistory                   // reasoning_history: a message contains reasoning of an earlier turn
	FlagImages                             // images: a message contains an image
	FlagFiles                              // files: a message contains a file or a video
	FlagAudio                              // audio: a message contains audio, or the client requests audio output
	FlagResponseFormat                     // response_format: the client requests a format other than text
	FlagLogprobs                           // logprobs: the client requests logprobs
	FlagParallelTools                      // parallel_tools: parallel_tool_calls is set
	FlagCacheControl                       // cache_control: the request, a message, a content part or a tool has cache_control
	FlagToolNames                          // tool_names: a tool or a call has a name that the OpenAI API does not accept
)

// Summary describes a request without its body. Its slices are valid until the call returns.
type Summary struct {
	RequestID    []byte
	Time         int64  // Unix time in milliseconds
	Attempt      int64  // 1 for the first target tried, 2 for the next
	Random       uint64 // random bits, independent of the request
	Stream       bool   // the client requests a stream
	IncludeUsage bool   // the client requests usage in the stream
	Model        []byte // the model in the client's request
	Target       []byte // the provider's name for the model; empty for a router

	MaxTokens        int64 // the model's maximum number of completion tokens; 0 if unknown
	DefaultMaxTokens int64 // limit for requests that set none; 0 if unknown

	// Form is the API whose format the body has: abi.FormChat, or another one that the provider accepts
	// (provider.Former). ClientForm is the API that the client uses; if it differs from Form, the gateway has converted
	// the request. An API that this SDK does not know is FormUnknown.
	Form, ClientForm abi.Forms
	Betas            json.Value // array of strings: the values of the anthropic-beta header, for clients that use Messages
	Tags             json.Value // array of strings: the tags that filters have set for the request

	Flags    Flags
	BodySize int64      // size of the client's body in bytes
	Options  json.Value // object: the provider's options, overridden by the target's
}

// FormUnknown stands for an API that this version of the SDK does not know.
const FormUnknown abi.Forms = -1

// Has reports whether all of the flags are set.
func (s *Summary) Has(f Flags) bool { return s.Flags&f == f }
