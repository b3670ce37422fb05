package sdk

import "github.com/sluice-gateway/sluice/sdk/json"

// Flags are features of a request that a plugin may want to decide by without reading the body.
type Flags uint32

// The flags. The name in the comment is the one in the summary.
const (
	FlagTools            Flags = 1 << iota // tools: there are tools
	FlagToolHistory                        // tool_history: a message is a tool result or holds tool calls
	FlagThinking                           // thinking: the member thinking asks for reasoning
	FlagReasoning                          // reasoning: there is a reasoning_effort
	FlagReasoningHistory                   // reasoning_history: a message holds reasoning of an earlier turn
	FlagImages                             // images: a message holds an image
	FlagFiles                              // files: a message holds a file
	FlagAudio                              // audio: a message holds audio, or audio is asked for
	FlagResponseFormat                     // response_format: a form other than text is asked for
	FlagLogprobs                           // logprobs: they are asked for
	FlagParallelTools                      // parallel_tools: there is a parallel_tool_calls
	FlagCacheControl                       // cache_control: a message, part or tool has one
)

// Summary describes a request without its body. Its slices are valid during the call.
type Summary struct {
	RequestID    []byte
	Time         int64  // Unix time in milliseconds
	Attempt      int64  // 1 for the first target that is tried, then 2, …
	Random       uint64 // random bits, independent of the request
	Stream       bool   // the client asks for a stream
	IncludeUsage bool   // the client asks for the usage in its stream
	Model        []byte // as the client asked
	Target       []byte // the model's name with this provider; empty for a router

	MaxTokens        int64 // the model's limit, 0 if it is not known
	DefaultMaxTokens int64 // for a request without one, 0 if it is not known

	Flags    Flags
	BodySize int64      // the size of the client's body in bytes
	Options  json.Value // the target's table over the provider's; an object
}

// Has reports whether all of the flags are set.
func (s *Summary) Has(f Flags) bool { return s.Flags&f == f }
