package sdk

import "bytes"

// maxDelay is the longest delay that RetryDelay returns, in milliseconds.
const maxDelay = 7 * 24 * 3600 * 1000

// delayUnits are units of time with their length in milliseconds. A spelling comes before its own prefixes ("minutes"
// before "m").
var delayUnits = [...]struct {
	name string
	ms   float64
}{
	{"milliseconds", 1}, {"millisecond", 1}, {"ms", 1},
	{"minutes", 60_000}, {"minute", 60_000}, {"mins", 60_000}, {"min", 60_000}, {"m", 60_000},
	{"seconds", 1000}, {"second", 1000}, {"secs", 1000}, {"sec", 1000}, {"s", 1000},
	{"hours", 3_600_000}, {"hour", 3_600_000}, {"hrs", 3_600_000}, {"h", 3_600_000},
	{"days", 86_400_000}, {"day", 86_400_000}, {"d", 86_400_000},
}

// delayWords are the phrases that introduce a delay in a sentence.
var delayWords = [...]string{"try again in ", "retry in ", "retry after ", "retrying in ", "reset in ", "wait "}

// RetryDelay parses the delay from a provider's error message, for Failure.RetryAfter. It returns milliseconds, rounded
// up because a retry that is too early fails again, or 0 if the text contains no delay. It reads numbers of seconds
// ("20", "48.9") and durations ("250ms", "1m30.5s", "2 minutes"), on their own or after a phrase such as "Please try
// again in" or "Retry after".
func RetryDelay(text []byte) int32 {
	text = bytes.ToLower(bytes.TrimSpace(text))
	if ms, ok := readDelay(text); ok {
		return ms
	}
	for _, words := range delayWords {
		if at := bytes.Index(text, []byte(words)); at >= 0 {
			if ms, ok := readDelay(text[at+len(words):]); ok {
				return ms
			}
		}
	}
	return 0
}

// readDelay parses a delay at the beginning of text.
func readDelay(text []byte) (ms int32, ok bool) {
	sum := 0.0
	for {
		n, value, scale := 0, 0.0, 0.0
		for ; n < len(text) && (text[n] >= '0' && text[n] <= '9' || text[n] == '.' && scale == 0 && n > 0 && n+1 < len(text) && text[n+1] >= '0' && text[n+1] <= '9'); n++ {
			switch {
			case text[n] == '.':
				scale = 1
			case scale > 0:
				scale /= 10
				value += float64(text[n]-'0') * scale
			default:
				value = 10*value + float64(text[n]-'0')
			}
		}
		if n == 0 {
			break
		}
		text = bytes.TrimLeft(text[n:], " ")
		unit, known := 1000.0, false
		for _, u := range delayUnits {
			if bytes.HasPrefix(text, []byte(u.name)) && !(len(text) > len(u.name) && text[len(u.name)] >= 'a' && text[len(u.name)] <= 'z') {
				unit, known, text = u.ms, true, text[len(u.name):]
				break
			}
		}
		if !known && ok {
			break // a number after the delay
		}
		sum, ok = sum+value*unit, true
		if !known {
			break
		}
		text = bytes.TrimLeft(text, " ")
	}
	if sum = min(sum, maxDelay); sum > 0 {
		ms = int32(sum)
		if float64(ms) < sum-1e-6 {
			ms++
		}
	}
	return ms, ok
}
