package response

import (
	"bytes"
	"strconv"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Usage is the tokens of one answer, as a client sees them and as they are accounted.
type Usage struct {
	Prompt     int64 // all of the prompt, cached or not
	Completion int64 // all of the completion, reasoning included
	Total      int64 // always Prompt + Completion

	// Parts of Prompt and of Completion; 0 where the provider did not say.
	Cached, CacheWrite, AudioIn int64
	Reasoning, AudioOut         int64

	Known     bool // the provider gave at least one of Prompt and Completion
	Estimated bool // at least one of Prompt and Completion is the gateway's estimate
	Complete  bool // the answer is complete: nothing more can come
}

// maxTokens bounds a token count, so that sums cannot overflow.
const maxTokens = 1 << 50

// tally is the counts that the provider has given, by abi.UsageKind.
type tally struct {
	count [abi.UsageKinds]int64
	known uint16 // bit by kind
}

// set takes a count; the last one of a kind wins. What can be no count is ignored.
func (t *tally) set(kind abi.UsageKind, value int64) {
	if value < 0 || value > maxTokens {
		return
	}
	t.count[kind] = value
	t.known |= 1 << kind
}

func (t *tally) has(kinds ...abi.UsageKind) bool {
	for _, k := range kinds {
		if t.known&(1<<k) != 0 {
			return true
		}
	}
	return false
}

// bytesPerToken is what a token is taken for where the provider does not count.
const bytesPerToken = 4

// Usage is the tokens so far.
func (m *Writer) Usage() Usage {
	t := &m.usage
	u := Usage{
		Prompt: t.count[abi.UsagePrompt] + t.count[abi.UsagePromptBeside] +
			t.count[abi.UsageCachedBeside] + t.count[abi.UsageCacheWriteBeside],
		Completion: t.count[abi.UsageCompletion] + t.count[abi.UsageReasoningBeside],
		Cached:     t.count[abi.UsageCached] + t.count[abi.UsageCachedBeside],
		CacheWrite: t.count[abi.UsageCacheWrite] + t.count[abi.UsageCacheWriteBeside],
		AudioIn:    t.count[abi.UsageAudioIn],
		Reasoning:  t.count[abi.UsageReasoning] + t.count[abi.UsageReasoningBeside],
		AudioOut:   t.count[abi.UsageAudioOut],
		Complete:   m.complete,
	}
	prompt := t.has(abi.UsagePrompt, abi.UsagePromptBeside, abi.UsageCachedBeside, abi.UsageCacheWriteBeside)
	completion := t.has(abi.UsageCompletion, abi.UsageReasoningBeside)
	u.Known = prompt || completion
	u.Estimated = !prompt || !completion
	if !prompt {
		u.Prompt = m.o.PromptEstimate
	}
	if !completion {
		u.Completion = (m.bytes + bytesPerToken - 1) / bytesPerToken
	}
	u.Total = u.Prompt + u.Completion
	return u
}

// The objects inside the usage object. An extra member of usage whose name begins with one of these and a dot goes there.
const (
	promptDetails     = "prompt_tokens_details"
	completionDetails = "completion_tokens_details"
)

// usageMembers are the extra members of the usage object and of the two objects in it.
type usageMembers struct{ top, prompt, completion members }

func (x *usageMembers) reset() {
	x.top.reset()
	x.prompt.reset()
	x.completion.reset()
}

// of returns the object that an extra member belongs to, and its name there.
func (x *usageMembers) of(name []byte) (to *members, inner []byte) {
	if rest, ok := bytes.CutPrefix(name, []byte(promptDetails+".")); ok {
		return &x.prompt, rest
	}
	if rest, ok := bytes.CutPrefix(name, []byte(completionDetails+".")); ok {
		return &x.completion, rest
	}
	return &x.top, name
}

// appendUsage appends the usage object. Of the details those are written that the provider gave.
func (m *Writer) appendUsage(dst []byte) []byte {
	u, t := m.Usage(), &m.usage
	dst = append(dst, '{')
	dst = appendCount(dst, "prompt_tokens", u.Prompt)
	dst = appendCount(append(dst, ','), "completion_tokens", u.Completion)
	dst = appendCount(append(dst, ','), "total_tokens", u.Total)

	dst, from := openDetails(dst, promptDetails)
	if t.has(abi.UsageCached, abi.UsageCachedBeside) {
		dst = appendCount(append(dst, ','), "cached_tokens", u.Cached)
	}
	if t.has(abi.UsageCacheWrite, abi.UsageCacheWriteBeside) {
		dst = appendCount(append(dst, ','), "cache_creation_tokens", u.CacheWrite)
	}
	if t.has(abi.UsageAudioIn) {
		dst = appendCount(append(dst, ','), "audio_tokens", u.AudioIn)
	}
	dst = closeDetails(m.usageX.prompt.appendTo(dst), from, promptDetails)

	dst, from = openDetails(dst, completionDetails)
	if t.has(abi.UsageReasoning, abi.UsageReasoningBeside) {
		dst = appendCount(append(dst, ','), "reasoning_tokens", u.Reasoning)
	}
	if t.has(abi.UsageAudioOut) {
		dst = appendCount(append(dst, ','), "audio_tokens", u.AudioOut)
	}
	dst = closeDetails(m.usageX.completion.appendTo(dst), from, completionDetails)

	dst = m.usageX.top.appendTo(dst)
	if u.Estimated {
		dst = append(dst, `,"estimated":true`...)
	}
	return append(dst, '}')
}

func appendCount(dst []byte, name string, n int64) []byte {
	dst = append(append(append(dst, '"'), name...), `":`...)
	return strconv.AppendInt(dst, n, 10)
}

// openDetails begins a member that is an object. from is where its first member's comma will stand.
func openDetails(dst []byte, name string) (_ []byte, from int) {
	dst = append(append(append(dst, `,"`...), name...), `":{`...)
	return dst, len(dst)
}

// closeDetails ends the object, or takes it back if nothing has been put into it.
func closeDetails(dst []byte, from int, name string) []byte {
	if len(dst) == from {
		return dst[:from-len(name)-len(`,"":{`)]
	}
	return append(dropComma(dst, from), '}')
}
