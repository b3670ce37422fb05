package demo

import (
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// maxQuote is the maximum length of a quote.
const maxQuote = 160

// appendReply appends the text of the response.
func appendReply(dst []byte, c *conversation) []byte {
	switch {
	case c.hasResult && len(c.result) > 0:
		dst = append(dst, "The tool answered: "...)
		dst = appendQuote(dst, c.result)
		return append(dst, " That is all I needed, thank you."...)
	case c.hasResult:
		return append(dst, "The tool answered without a word. That is all I needed, thank you."...)
	case len(c.user) == 0:
		return append(dst, "Hello! I am the demo model of this gateway. Say something, and I will answer."...)
	}
	if c.user[len(c.user)-1] == '?' {
		dst = append(dst, "A good question: "...)
	} else {
		dst = append(dst, "Hello! You said "...)
	}
	dst = appendQuote(dst, c.user)
	return append(dst, " I am only the demo model, so this is all I know; but the key check, the sandboxed plugin, "+
		"the stream and the token counts around it are real."...)
}

// appendQuote appends the beginning of a text as one line in quotes, with a period unless the text ends a sentence.
func appendQuote(dst, text []byte) []byte {
	cut := len(text) > maxQuote
	if cut {
		text = text[:maxQuote]
		for i := 1; i < utf8.UTFMax; i++ {
			if utf8.RuneStart(text[len(text)-i]) {
				if !utf8.FullRune(text[len(text)-i:]) {
					text = text[:len(text)-i]
				}
				break
			}
		}
	}
	dst = append(dst, "“"...)
	for _, b := range text {
		if b == '\n' || b == '\r' || b == '\t' {
			b = ' '
		}
		dst = append(dst, b)
	}
	if cut {
		return append(dst, "…”"...)
	}
	dst = append(dst, "”"...)
	switch text[len(text)-1] {
	case '.', '!', '?':
		return dst
	}
	return append(dst, '.')
}

// appendThoughts appends the reasoning of the response.
func appendThoughts(dst []byte, c *conversation) []byte {
	dst = append(dst, "The conversation has "...)
	dst = json.AppendInt(dst, int64(c.messages))
	if c.messages == 1 {
		dst = append(dst, " message"...)
	} else {
		dst = append(dst, " messages"...)
	}
	switch {
	case c.hasResult:
		return append(dst, ", and the last one is what a tool answered. I should say what it was."...)
	case c.chosen != nil:
		return append(dst, ", and there is a tool for this. I should call it."...)
	case c.schema.Exists() || c.jsonObject:
		return append(dst, ". The answer must be JSON, so I should write the smallest document that fits."...)
	}
	return append(dst, ". I should take up what was said last, and be friendly."...)
}

// firstStop returns the start of the first stop sequence in text, len(text) if there is none.
func firstStop(text []byte, c *conversation) int {
	first := len(text)
	c.eachStop(func(sequence []byte) {
		for i := 0; len(sequence) > 0 && i+len(sequence) <= first; i++ {
			if string(text[i:i+len(sequence)]) == string(sequence) {
				first = i
			}
		}
	})
	return first
}

// maxToken is the approximate maximum length of a token.
const maxToken = 16

// tokenLength returns the length of the first token of a text: a word with the space before it.
func tokenLength(text []byte) int {
	for i := 1; i < len(text); i++ {
		if text[i] == ' ' || i >= maxToken && utf8.RuneStart(text[i]) {
			return i
		}
	}
	return len(text)
}
