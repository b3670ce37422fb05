package clientapi

import "math/bits"

// Flags is what a request asks for, as far as a plugin, a router or an account can decide by it without reading the
// body.
type Flags uint32

// The flags. Their names, as Names gives them, are part of the plugin ABI's request summary.
const (
	FlagTools            Flags = 1 << iota // "tools": there are tools or legacy functions
	FlagToolHistory                        // "tool_history": a message is a tool's result or holds tool calls
	FlagThinking                           // "thinking": the member thinking asks for it
	FlagReasoning                          // "reasoning": there is a reasoning_effort
	FlagReasoningHistory                   // "reasoning_history": a message holds the reasoning of an earlier turn
	FlagImages                             // "images": a message holds an image
	FlagFiles                              // "files": a message holds a file or a video
	FlagAudio                              // "audio": a message holds audio, or audio is asked for
	FlagResponseFormat                     // "response_format": another form than text is asked for
	FlagLogprobs                           // "logprobs": they are asked for
	FlagParallelTools                      // "parallel_tools": parallel_tool_calls is set, to true or false
	FlagCacheControl                       // "cache_control": a message, a part or a tool has one
)

var flagNames = [...]string{
	"tools", "tool_history", "thinking", "reasoning", "reasoning_history", "images", "files", "audio",
	"response_format", "logprobs", "parallel_tools", "cache_control",
}

// Has reports whether all of want are set.
func (f Flags) Has(want Flags) bool { return f&want == want }

// Names are the names of the flags that are set, in their order; nil if there are none.
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
