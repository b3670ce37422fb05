package translate

// The parts of a provider's body (provider.Request.Part). Prompt caches match prefixes, and providers put tools in front of the system
// prompt and that in front of the messages: the body has them in this order, and all that may differ between two turns of a
// conversation after them. The messages are written while they are read, so the prompt, which depends on them, is written later.
const (
	PartHead     = iota // the beginning of the body, up to a comma
	PartPrompt          // tools and system prompt, up to a comma unless there are none
	PartMessages        // the messages, then all else
)
