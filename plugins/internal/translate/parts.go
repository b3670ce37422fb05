package translate

// The parts of an upstream body (provider.Request.Part). Prompt caches match prefixes, and providers place tools before
// the system prompt, and the system prompt before the messages. The body therefore has this order, and ends with
// everything that may differ between two turns of a conversation. The messages are written while they are read; the
// prompt depends on them, so it is written later.
const (
	PartHead     = iota // the beginning of the body, including a trailing comma
	PartPrompt          // tools and system prompt, including a trailing comma unless there are none
	PartMessages        // the messages, followed by everything else
)
