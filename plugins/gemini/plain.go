package gemini

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Nearly all events of a stream contain one text or thought and have the same layout. Comparing bytes costs a quarter
// of parsing them. Any other event goes through the JSON reader.
const (
	plainHead       = `{"candidates": [{"content": {"parts": [{"text": "`
	plainText       = `"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": `
	plainThought    = `","thought": true}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": `
	plainCompletion = `,"candidatesTokenCount": `
	plainTotal      = `,"totalTokenCount": `
	plainDetails    = `,"promptTokensDetails": [{"modality": "TEXT","tokenCount": `
	plainClose      = `}]`
	plainThink      = `,"thoughtsTokenCount": `
	plainTier       = `,"serviceTier": "standard"`
	plainModel      = `},"modelVersion": "`
	plainID         = `","responseId": "`
	plainEnd        = `"}`
)

// plainEvent is the content of such an event. Its slices share the event's memory.
type plainEvent struct {
	inside                       []byte // escaped text
	thought                      bool
	prompt, answer, thoughts     int64
	prompted, answered, reasoned bool
	model, id                    []byte
}

// readPlain reads an event with the usual layout; ok is false for any other.
func readPlain(r *json.Reader, data []byte) (ev plainEvent, ok bool) {
	rest, ok := cut(data, plainHead)
	if !ok {
		return ev, false
	}
	r.Reset(data[len(plainHead)-1:]) // start of the string, including its quote
	if ev.inside = r.Inside(); ev.inside == nil {
		return ev, false
	}
	rest = rest[len(ev.inside):]
	if after, isText := cut(rest, plainText); isText {
		rest = after
	} else if rest, ok = cut(rest, plainThought); ok {
		ev.thought = true
	} else {
		return ev, false
	}
	if ev.prompt, ev.prompted, rest = digits(rest); !ev.prompted {
		return ev, false
	}
	if after, some := cut(rest, plainCompletion); some {
		if ev.answer, ev.answered, rest = digits(after); !ev.answered {
			return ev, false
		}
	}
	if rest, ok = number64(rest, plainTotal); !ok {
		return ev, false
	}
	if rest, ok = number64(rest, plainDetails); !ok {
		return ev, false
	}
	if rest, ok = cut(rest, plainClose); !ok {
		return ev, false
	}
	if after, some := cut(rest, plainThink); some {
		if ev.thoughts, ev.reasoned, rest = digits(after); !ev.reasoned {
			return ev, false
		}
	}
	if after, some := cut(rest, plainTier); some {
		rest = after
	}
	if rest, ok = cut(rest, plainModel); !ok {
		return ev, false
	}
	ev.model, rest = name(rest)
	if rest, ok = cut(rest, plainID); !ok {
		return ev, false
	}
	ev.id, rest = name(rest)
	return ev, len(ev.model) <= abi.MaxName && len(ev.id) <= abi.MaxName && string(rest) == plainEnd
}

// cut removes the prefix s from b.
func cut(b []byte, s string) (rest []byte, ok bool) {
	if len(b) < len(s) || string(b[:len(s)]) != s {
		return b, false
	}
	return b[len(s):], true
}

// digits reads a number with few digits.
func digits(b []byte) (n int64, ok bool, rest []byte) {
	const few = 12
	i := 0
	for i < len(b) && b[i]-'0' <= 9 {
		n = n*10 + int64(b[i]-'0')
		i++
	}
	return n, i > 0 && i <= few && (i == 1 || b[0] != '0'), b[i:]
}

// number64 removes the prefix s and a number after it from b.
func number64(b []byte, s string) (rest []byte, ok bool) {
	if rest, ok = cut(b, s); ok {
		_, ok, rest = digits(rest)
	}
	return rest, ok
}

// name reads the prefix of b that consists of characters of IDs and names.
func name(b []byte) (s, rest []byte) {
	i := 0
	for i < len(b) && nameByte[b[i]] {
		i++
	}
	return b[:i], b[i:]
}

// nameByte reports whether a byte is allowed in an ID or name on the fast path.
var nameByte = [256]bool{'-': true, '.': true, '_': true, '/': true, '@': true}

func init() {
	for c := range nameByte {
		if '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' {
			nameByte[c] = true
		}
	}
}

// emit emits the content of the event, as read does.
func (ev *plainEvent) emit(a *provider.Answer, p *progress) error {
	if ev.thought {
		q := piece{text: ev.inside, thought: true}
		if err := q.emit(a, p, 0, false); err != nil {
			return err
		}
	} else if len(ev.inside) > 0 {
		a.Text(0, abi.EncodingEscaped, ev.inside)
	}
	a.Start(ev.id, ev.model, format)
	a.Usage(abi.UsagePrompt, ev.prompt)
	a.Usage(abi.UsageCompletion, ev.answer+ev.thoughts)
	if ev.reasoned {
		a.Usage(abi.UsageReasoning, ev.thoughts)
	}
	return nil
}
