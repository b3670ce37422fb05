package native

import (
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// tokenCount reads a token count of a provider.
func tokenCount(v jsondoc.Value) (n int64, ok bool) {
	n, ok = v.Int()
	return n, ok && n >= 0
}

// firstCount reads the first of the members that is a count.
func firstCount(v jsondoc.Value, names ...string) (n int64, ok bool) {
	for _, name := range names {
		if n, ok = tokenCount(v.Get(name)); ok {
			return n, true
		}
	}
	return 0, false
}

// usage reads a usage object. Providers that send several of them send totals: the last one counts, whole.
func (r *Reader) usage(b *response.Batch, v jsondoc.Value) {
	if v.Kind() != jsondoc.Object {
		return
	}
	prompt, hasPrompt := firstCount(v, "prompt_tokens", "input_tokens")
	completion, hasCompletion := firstCount(v, "completion_tokens", "output_tokens")
	total, hasTotal := tokenCount(v.Get("total_tokens"))
	in, out := v.Get("prompt_tokens_details"), v.Get("completion_tokens_details")
	reasoning, hasReasoning := tokenCount(out.Get("reasoning_tokens"))
	if !hasReasoning {
		reasoning, hasReasoning = tokenCount(v.Get("reasoning_tokens"))
	}

	// What the total holds beyond prompt and completion is a part of the completion that this provider does not count
	// there: its reasoning if it says so, else something unknown.
	besides := abi.UsageReasoning
	if hasTotal && hasPrompt && total > prompt+completion {
		switch {
		case hasReasoning && prompt+completion+reasoning == total:
			besides = abi.UsageReasoningBeside
		default:
			completion, hasCompletion = total-prompt, true
		}
	}
	if hasPrompt {
		b.Usage(abi.UsagePrompt, prompt)
	}
	if hasCompletion {
		b.Usage(abi.UsageCompletion, completion)
	}
	if hasReasoning {
		b.Usage(besides, reasoning)
	}
	cached, ok := tokenCount(in.Get("cached_tokens"))
	if !ok {
		cached, ok = firstCount(v, "prompt_cache_hit_tokens", "cached_tokens")
	}
	written, wrote := firstCount(in, "cache_creation_tokens", "cache_write_tokens")
	read, write := abi.UsageCached, abi.UsageCacheWrite
	if hasPrompt && cached+written > prompt {
		// More than all of the prompt: this provider passes on counts of an API in which the cache is not a part of the prompt.
		read, write = abi.UsageCachedBeside, abi.UsageCacheWriteBeside
	}
	if ok {
		b.Usage(read, cached)
	}
	if wrote {
		b.Usage(write, written)
	}
	if n, ok := tokenCount(in.Get("cache_creation_token_details").Get("ephemeral_1h_input_tokens")); ok {
		b.Usage(abi.UsageCacheWrite1h, n)
	}
	if n, ok := tokenCount(in.Get("audio_tokens")); ok {
		b.Usage(abi.UsageAudioIn, n)
	}
	if n, ok := tokenCount(out.Get("audio_tokens")); ok {
		b.Usage(abi.UsageAudioOut, n)
	}
	r.usageExtras(b, "", v)
	r.usageExtras(b, "prompt_tokens_details.", in)
	r.usageExtras(b, "completion_tokens_details.", out)
}
