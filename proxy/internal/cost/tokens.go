package cost

// Tokens is the usage of one response. Each token is counted in either Prompt or Completion. All other counts are parts
// of these two.
type Tokens struct {
	Prompt     int64 // includes cached tokens
	Completion int64 // includes reasoning

	// Parts of Prompt and of Completion; 0 if the provider did not count them.
	Cached, CacheWrite, AudioIn int64 // read from a cache, written to a cache, audio
	Reasoning, AudioOut         int64

	CacheWrite1h int64 // part of CacheWrite that was written for an hour
}

// Total returns the number of prompt and completion tokens.
func (t *Tokens) Total() int64 { return t.Prompt + t.Completion }

// split returns the tokens by kind of price. No token is counted twice, even if the parts add up to more than the
// whole: then the kinds that are split off first keep their counts.
func (t *Tokens) split() (n [Kinds]int64) {
	splitOff := func(from *int64, part int64) int64 {
		part = min(max(part, 0), *from)
		*from -= part
		return part
	}
	prompt, completion := max(t.Prompt, 0), max(t.Completion, 0)
	n[CacheWrite] = splitOff(&prompt, t.CacheWrite)
	n[CacheWrite1h] = splitOff(&n[CacheWrite], t.CacheWrite1h)
	n[CachedInput] = splitOff(&prompt, t.Cached)
	n[AudioInput] = splitOff(&prompt, t.AudioIn)
	n[Input] = prompt
	n[AudioOutput] = splitOff(&completion, t.AudioOut)
	n[Reasoning] = splitOff(&completion, t.Reasoning)
	n[Output] = completion
	return n
}
