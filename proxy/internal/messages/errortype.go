package messages

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
)

// statusOverloaded is the API's own status for an overloaded service.
const statusOverloaded = 529

// Status returns the HTTP status of an error response in this API.
func Status(e *apierror.Error) int {
	switch e.Status {
	case 503:
		return statusOverloaded
	case 402: // concerns the operator's account, not the client's
		return 502
	}
	return e.Status
}

// errorType returns the API's error type for the status of e.
func errorType(e *apierror.Error) string {
	switch status := Status(e); {
	case status == 401:
		return "authentication_error"
	case status == 403:
		return "permission_error"
	case status == 404:
		return "not_found_error"
	case status == 408, status == 504:
		return "timeout_error"
	case status == 413:
		return "request_too_large"
	case status == 429:
		return "rate_limit_error"
	case status == statusOverloaded:
		return "overloaded_error"
	case status >= 500:
		return "api_error"
	}
	return "invalid_request_error"
}

// Clients recognize a request that exceeds the context window by these texts: Claude Code compacts the conversation
// after the first, and retries with a lower max_tokens after the second.
const (
	promptTooLong = "prompt is too long"
	outputTooLong = "input length and `max_tokens` exceed context limit"
)

// contextTexts match the messages in which providers report that a conversation exceeds the context window. The named
// groups are numbers of tokens: limit is the size of the context window, prompt and output are what the request needs.
var contextTexts = func() (list []*regexp.Regexp) {
	for _, text := range []string{
		// vLLM: 'max_tokens' … is too large: 100000. This model's maximum context length is 32768 tokens and your
		// request has 1234 input tokens
		`is too large: (?P<output>N)\. .*maximum context length is (?P<limit>N) tokens and your request has (?P<prompt>N) input tokens`,
		// OpenAI and compatible providers, DeepSeek, OpenRouter: … However, you requested 5000 tokens (1000 in the
		// messages, 4000 in the completion)
		`maximum context length is (?P<limit>N) tokens\. However, you requested (?:about )?N tokens \((?P<prompt>N) [^,]*, (?P<output>N) in the (?:completion|output)`,
		`maximum context length is (?P<limit>N) tokens\. However, (?:your messages resulted in|you requested)(?: about)? (?P<prompt>N)`,
		`maximum context length is (?P<limit>N) tokens.* (?P<prompt>N) input tokens`,
		// xAI
		`maximum prompt length is (?P<limit>N) but the request contains (?P<prompt>N)`,
		// Gemini
		`input token count \(?(?P<prompt>N)\)? exceeds the maximum number of tokens allowed \(?(?P<limit>N)`,
		// Mistral
		`Prompt contains (?P<prompt>N) tokens.*model with (?P<limit>N) maximum context length`,
		// Cohere
		`cannot exceed (?P<limit>N) - received (?P<prompt>N)`,
		// TGI, Together
		"tokens \\+ `max_new_tokens` must be <= (?P<limit>N)\\. Given: (?P<prompt>N) `inputs` tokens and (?P<output>N)",
		// llama.cpp
		`request \((?P<prompt>N) tokens\) exceeds the available context size \((?P<limit>N)`,
		// Fireworks
		`prompt is too long: (?P<prompt>N), model maximum context length: (?P<limit>N)`,
	} {
		list = append(list, regexp.MustCompile(strings.ReplaceAll(text, "N", `\d[\d,]*`)))
	}
	return list
}()

// contextMessage returns the message of an error. A context length error is reworded in the terms of this API, with the
// numbers from the provider's message if it contains them.
func contextMessage(e *apierror.Error) string {
	if e.Code != codeContextLength {
		return e.Message
	}
	if strings.HasPrefix(e.Message, outputTooLong) || strings.HasPrefix(e.Message, promptTooLong) && strings.Contains(e.Message, " > ") {
		return e.Message
	}
	for _, text := range contextTexts {
		found := text.FindStringSubmatch(e.Message)
		if found == nil {
			continue
		}
		number := func(name string) int64 {
			i := text.SubexpIndex(name)
			if i < 0 {
				return 0
			}
			n, _ := strconv.ParseInt(strings.ReplaceAll(found[i], ",", ""), 10, 64)
			return n
		}
		prompt, output, limit := number("prompt"), number("output"), number("limit")
		switch {
		case prompt > limit && limit > 0:
			return fmt.Sprintf("%s: %d tokens > %d maximum", promptTooLong, prompt, limit)
		case prompt > 0 && output > 0 && limit > 0:
			return fmt.Sprintf("%s: %d + %d > %d, decrease input length or `max_tokens` and try again", outputTooLong, prompt, output, limit)
		}
	}
	return promptTooLong
}
