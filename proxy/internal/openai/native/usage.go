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

// firstCount reads the first of the named members that is a token count.
func firstCount(v jsondoc.Value, names ...string) (n int64, ok bool) {
	for _, name := range names {
		if n, ok = tokenCount(v.Get(name)); ok {
			return n, true
		}
	}
	return 0, false
}

// usage reads a usage object. If a provider sends several, each one has the totals so far, and the last one wins.
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

	// If the total exceeds prompt and completion, the difference, reasoning for instance, belongs to the completion but is
	// not included in its count.
	if hasTotal && hasPrompt && total > prompt+completion {
		completion, hasCompletion = total-prompt, true
	}
	if hasPrompt {
		b.Usage(abi.UsagePrompt, prompt)
	}
	if hasCompletion {
		b.Usage(abi.UsageCompletion, completion)
	}
	if hasReasoning {
		b.Usage(abi.UsageReasoning, reasoning)
	}
	cached, hasCached := tokenCount(in.Get("cached_tokens"))
	if !hasCached {
		cached, hasCached = firstCount(v, "prompt_cache_hit_tokens", "cached_tokens")
	}
	written, hasWritten := firstCount(in, "cache_creation_tokens", "cache_write_tokens")
	readKind, writeKind := abi.UsageCached, abi.UsageCacheWrite
	if hasPrompt && cached+written > prompt {
		// The cache counts exceed the prompt, so this provider passes on counts of an API whose prompt excludes the
		// cache.
		readKind, writeKind = abi.UsageCachedBeside, abi.UsageCacheWriteBeside
	}
	if hasCached {
		b.Usage(readKind, cached)
	}
	if hasWritten {
		b.Usage(writeKind, written)
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
