package clientapi

import "math/bits"

// Flags are the features that a request uses, so that plugins, routing and accounting can decide by them without
// reading the body.
type Flags uint32

// The flags. Their names, as returned by Names, are part of the request summary in the plugin ABI.
const (
	FlagTools            Flags = 1 << iota // "tools": there are tools or functions
	FlagToolHistory                        // "tool_history": a message is a tool's result or has tool calls
	FlagThinking                           // "thinking": the member thinking enables it
	FlagReasoning                          // "reasoning": there is a reasoning_effort
	FlagReasoningHistory                   // "reasoning_history": a message has the reasoning of an earlier turn
	FlagImages                             // "images": a message has an image
	FlagFiles                              // "files": a message has a file or a video
	FlagAudio                              // "audio": a message has audio, or the response is to have audio
	FlagResponseFormat                     // "response_format": the response is to have another format than text
	FlagLogprobs                           // "logprobs": the response is to have log probabilities
	FlagParallelTools                      // "parallel_tools": parallel_tool_calls is set, to true or false
	FlagCacheControl                       // "cache_control": the request, a message, a part or a tool has cache_control
	FlagToolNames                          // "tool_names": in chat completions, a tool or a call has a name that OpenAI does not accept
)

var flagNames = [...]string{
	"tools", "tool_history", "thinking", "reasoning", "reasoning_history", "images", "files", "audio",
	"response_format", "logprobs", "parallel_tools", "cache_control", "tool_names",
}

// Has reports whether all flags of want are set.
func (f Flags) Has(want Flags) bool { return f&want == want }

// Names returns the names of the set flags in order, or nil if there are none.
func (f Flags) Names() []string {
	if f == 0 {
		return nil
	}
	names := make([]string, 0, bits.OnesCount32(uint32(f)))
	for i, name := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}
