package native

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Failure returns the error for a response with an error status. body may be anything, for example JSON in one of the
// forms in use, or the HTML page of a proxy. Failure does not retain it.
//
// The provider's message is passed on if it is about the request. A message about the operator's account (its key,
// limits or billing) is not, because it does not concern the client and may identify the account.
func Failure(status int, body []byte) *apierror.Error {
	var d jsondoc.Doc
	if d.Parse(body, jsondoc.Limits{Depth: maxDepth, Nodes: maxNodes, Loose: true}) == nil {
		root := d.Root()
		if root.Kind() == jsondoc.Array { // some providers send an array with one error
			root = root.First()
		}
		if w := findError(root); w != nil {
			return w.failure(status, "upstream_error")
		}
		if root.Kind() == jsondoc.Object {
			w := providerError{}
			return w.failure(status, "upstream_error")
		}
	}
	return proxyFailure(status, body)
}

// failureIn returns the failure in a chunk or in a response with a success status, or nil if there is none. code is
// used for unclassified failures.
func failureIn(root jsondoc.Value, code string) *apierror.Error {
	if w := findError(root); w != nil {
		return w.failure(0, code)
	}
	return nil
}

// ErrorText returns the type, code and message of an error response, or its text if it has none of these. body is as
// for Failure. The result is meant for the log, but callers must redact it first, because the provider may quote the
// request or secrets.
func ErrorText(body []byte) string {
	var d jsondoc.Doc
	if d.Parse(body, jsondoc.Limits{Depth: maxDepth, Nodes: maxNodes, Loose: true}) != nil {
		return clean(string(body[:min(len(body), 8*maxMessage)]))
	}
	root := d.Root()
	if root.Kind() == jsondoc.Array {
		root = root.First()
	}
	w := findError(root)
	if w == nil {
		w = readError(root)
		w.message = firstNonEmpty(w.message, messageText(root.Get("Message")))
	}
	words := make([]string, 0, 3)
	for _, s := range [...]string{w.kind, w.code, w.message} {
		if s != "" && !slices.Contains(words, s) {
			words = append(words, s)
		}
	}
	return strings.Join(words, ": ")
}

// providerError is an error as a provider reports it.
type providerError struct {
	message, kind, code, param string
	status                     int  // status in the body
	moderation                 bool // the prompt was flagged by moderation
}

// findError returns the provider's error in a document, or nil if there is none.
func findError(root jsondoc.Value) *providerError {
	if root.Kind() != jsondoc.Object {
		return nil
	}
	v := root.Get("error")
	switch v.Kind() {
	case jsondoc.Object:
		if !v.First().Exists() {
			return nil
		}
		return readError(v)
	case jsondoc.String:
		if len(v.Inside()) > 0 {
			return &providerError{message: v.Text()}
		}
	}
	if root.Get("object").Is("error") || !root.Get("choices").Exists() && (root.Get("message").Exists() || root.Get("detail").Exists()) {
		return readError(root)
	}
	return nil
}

// readError reads an error object.
func readError(v jsondoc.Value) *providerError {
	w := &providerError{
		message: messageText(v.Get("message")),
		kind:    shortText(v.Get("type")),
		param:   shortText(v.Get("param")),
	}
	if w.message == "" {
		w.message = messageText(v.Get("detail"))
	}
	for _, name := range [...]string{"status_code", "status", "code"} {
		m := v.Get(name)
		n, err := strconv.Atoi(string(m.Raw()))
		if m.Kind() == jsondoc.String {
			n, err = strconv.Atoi(m.Text())
		}
		if err == nil && n >= 300 && n < 600 {
			w.status = n
		} else if name == "code" && err != nil {
			w.code = shortText(m)
		}
	}
	w.moderation = v.Get("metadata").Get("reasons").Exists()
	return w
}

// messageText reads a message in one of its forms: a string, an object with a detail, or a list of validation errors.
func messageText(v jsondoc.Value) string {
	switch v.Kind() {
	case jsondoc.String:
		return v.Text()
	case jsondoc.Object:
		return messageText(v.Get("detail"))
	case jsondoc.Array:
		var all []string
		for f := v.First(); f.Exists() && len(all) < 8; f = f.Next() {
			if s := shortText(f.Get("msg")); s != "" {
				all = append(all, s)
			}
		}
		return strings.Join(all, "; ")
	}
	return ""
}

// shortText returns the text of a string, or "" if it is longer than abi.MaxName.
func shortText(v jsondoc.Value) string {
	if v.Kind() != jsondoc.String || len(v.Inside()) > abi.MaxName {
		return ""
	}
	return v.Text()
}

// upstreamError is the cause of a failure for the log. It excludes the provider's message, which may quote the request.
type upstreamError struct {
	status     int
	kind, code string
}

func (e *upstreamError) Error() string {
	return fmt.Sprintf("upstream status %d, type %q, code %q", e.status, e.kind, e.code)
}

// failure returns the client's version of a provider's error. status is the response's status, or 0 if that was a
// success.
func (w *providerError) failure(status int, fallback string) *apierror.Error {
	class := status
	if class == 0 {
		class = w.status
	}
	kind := w.classify(class)
	e := apierror.Fail(kind, "", "", "")
	switch kind {
	case abi.FailInvalidRequest, abi.FailContentPolicy, abi.FailConflict, abi.FailTooLarge:
		if w.code != "" {
			e.Code = w.code
		}
		e.Param = w.param
		e.Message = firstNonEmpty(clean(w.message), e.Message)
	case abi.FailContextLength, abi.FailUnsupported:
		e.Param = w.param
		e.Message = firstNonEmpty(clean(w.message), e.Message)
	case abi.FailQuota:
		if isQuota(w.code) {
			e.Code = w.code
		} else if isQuota(w.kind) {
			e.Code = w.kind
		}
	case abi.FailServer:
		if class == 404 {
			return noEndpoint(status, &upstreamError{class, w.kind, w.code})
		}
		e.Code = fallback
		e.Message = firstNonEmpty(clean(w.message), e.Message)
	case abi.FailOverloaded, abi.FailTimeout:
		e.Kind = apierror.KindServer
		e.Message = firstNonEmpty(clean(w.message), e.Message)
	}
	e.UpstreamStatus = status
	e.Cause = &upstreamError{class, w.kind, w.code}
	return e
}

func firstNonEmpty(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// classify returns the kind of failure. A code overrides the status if it is more specific.
func (w *providerError) classify(status int) abi.FailKind {
	switch {
	case isQuota(w.code), isQuota(w.kind):
		return abi.FailQuota
	case w.isKeyRejected():
		return abi.FailAuth
	case w.exceedsContext(status):
		return abi.FailContextLength
	}
	switch status {
	case 0:
		return w.classifyByCode()
	case 400, 422:
		switch {
		case w.isPolicyViolation():
			return abi.FailContentPolicy
		case w.isUnknownModel():
			return abi.FailModelNotFound
		}
		return abi.FailInvalidRequest
	case 403:
		switch {
		case w.moderation, w.isPolicyViolation():
			return abi.FailContentPolicy
		case w.isUnknownModel():
			return abi.FailModelNotFound
		}
		return abi.FailAuth
	case 404:
		if w.isUnknownModel() || w.mentionsModel() {
			return abi.FailModelNotFound
		}
		return abi.FailServer // the URL is wrong, not the model
	case 498: // Groq: the capacity of the tier is used up
		return abi.FailOverloaded
	}
	return apierror.StatusKind(status)
}

// classifyByCode is classify for an error without a status.
func (w *providerError) classifyByCode() abi.FailKind {
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(w.code, p) || strings.Contains(w.kind, p) {
				return true
			}
		}
		return false
	}
	switch {
	case w.moderation, w.isPolicyViolation():
		return abi.FailContentPolicy
	case w.isUnknownModel():
		return abi.FailModelNotFound
	case has("rate_limit", "too_many_requests") || w.kind == "requests" || w.kind == "tokens":
		return abi.FailRateLimit
	case has("overloaded", "slow_down", "service_unavailable", "capacity_exceeded", "engine_overloaded"):
		return abi.FailOverloaded
	case has("timeout", "deadline_exceeded"):
		return abi.FailTimeout
	case has("authentication", "permission", "unauthorized"):
		return abi.FailAuth
	case has("billing", "payment_required", "insufficient_credits"):
		return abi.FailBilling
	case has("not_found") && w.mentionsModel():
		return abi.FailModelNotFound
	case has("request_too_large"):
		return abi.FailTooLarge
	case has("invalid_request", "BadRequestError", "invalid_argument", "tool_use_failed"):
		return abi.FailInvalidRequest
	}
	return abi.FailServer
}

// isQuota reports whether a code or type means an exhausted quota, for which retrying does not help.
func isQuota(code string) bool {
	switch code {
	case "insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded", "project_spend_limit_exceeded",
		"organization_usage_limit_exceeded", "billing_hard_limit_reached", "quota_exceeded", "exceeded_current_quota_error":
		return true
	}
	return false
}

// isKeyRejected reports whether the provider rejected the operator's key, whatever the status.
func (w *providerError) isKeyRejected() bool {
	switch w.code {
	case "invalid_api_key", "API_KEY_INVALID":
		return true
	}
	return w.kind == "authentication_error" || strings.Contains(w.message, "API key not valid")
}

// isPolicyViolation reports whether the prompt was rejected for its content.
func (w *providerError) isPolicyViolation() bool {
	switch w.code {
	case "content_filter", "content_policy_violation", "moderation_blocked", "ResponsibleAIPolicyViolation", "data_inspection_failed":
		return true
	}
	return false
}

// isUnknownModel reports whether the provider does not have the model.
func (w *providerError) isUnknownModel() bool {
	switch w.code {
	case "model_not_found", "model_not_exist", "ModelNotFound", "DeploymentNotFound":
		return true
	}
	return w.kind == "NotFoundError"
}

// mentionsModel reports whether a 404 is about the model, rather than the URL.
func (w *providerError) mentionsModel() bool {
	m := strings.ToLower(w.code + " " + w.message[:min(len(w.message), 4*maxMessage)])
	return strings.Contains(m, "model") || strings.Contains(m, "deployment") || strings.Contains(m, "no endpoints found")
}

// noEndpoint returns the failure of a 404 that is not about the model, mostly because the configured URL is wrong. The
// provider's message is for the operator, so it goes to the log and not to the client.
func noEndpoint(status int, cause error) *apierror.Error {
	e := apierror.Fail(abi.FailServer, "upstream_not_found", "", "The provider has no such endpoint.")
	e.UpstreamStatus, e.Cause = status, cause
	return e
}

// exceedsContext reports whether the conversation is longer than the model's context window.
func (w *providerError) exceedsContext(status int) bool {
	switch status {
	case 0, 400, 413, 422:
	default:
		return false
	}
	if w.code == "context_length_exceeded" {
		return true
	}
	m := w.message
	if len(m) > 4*maxMessage {
		m = m[:4*maxMessage]
	}
	m = strings.ToLower(m)
	for _, p := range [...]string{"maximum context length", "context length exceeded", "context window", "prompt is too long", "exceeds the context"} {
		if strings.Contains(m, p) {
			return true
		}
	}
	return false
}

// proxyFailure is Failure for a body that is not from the provider, for example the HTML page of a proxy.
func proxyFailure(status int, body []byte) *apierror.Error {
	w := providerError{}
	kind := w.classify(status)
	if status == 404 {
		return noEndpoint(status, &upstreamError{status: status})
	}
	e := apierror.Fail(kind, "", "", "")
	switch kind {
	case abi.FailAuth, abi.FailBilling, abi.FailRateLimit:
	default:
		e.Kind = apierror.KindUpstream
		e.Message = firstNonEmpty(clean(string(body[:min(len(body), maxMessage)])), e.Message)
	}
	if status >= 500 {
		e.Status = 502
	}
	e.UpstreamStatus = status
	e.Cause = &upstreamError{status: status}
	return e
}

// maxMessage is the maximum number of bytes of a provider's message that are passed on.
const maxMessage = 500

// clean turns a provider's message into one line of plain text, without tags, scripts and control characters.
func clean(s string) string {
	b := make([]byte, 0, min(len(s), maxMessage))
	space := false
	for len(s) > 0 {
		r, w := utf8.DecodeRuneInString(s)
		switch {
		case r == '<' && len(s) > 1 && (s[1] == '/' || s[1] == '!' || s[1]|0x20 >= 'a' && s[1]|0x20 <= 'z'):
			w = tagWidth(s)
			space = true
		case r == utf8.RuneError && w == 1, unicode.IsSpace(r), unicode.IsControl(r):
			space = true
		default:
			if space && len(b) > 0 {
				b = append(b, ' ')
			}
			space = false
			if len(b)+w > maxMessage {
				return string(bytes.TrimSpace(b))
			}
			b = append(b, s[:w]...)
		}
		s = s[w:]
	}
	return string(b)
}

// tagWidth returns the length of the tag at the start of s. The tag of a script, style or comment includes its content.
func tagWidth(s string) int {
	for _, name := range [...]string{"script", "style", "!--"} {
		if len(s) <= len(name) || !strings.EqualFold(s[1:1+len(name)], name) {
			continue
		}
		end := "</" + name
		if name == "!--" {
			end = "--"
		}
		// Not strings.ToLower: it lengthens invalid UTF-8.
		for at := 1 + len(name); len(s)-at > len(end); at++ {
			if s[at] != end[0] || !strings.EqualFold(s[at:at+len(end)], end) {
				continue
			}
			if gt := strings.IndexByte(s[at:], '>'); gt >= 0 {
				return at + gt + 1
			}
			break
		}
		return len(s)
	}
	if at := strings.IndexByte(s, '>'); at >= 0 {
		return at + 1
	}
	return len(s)
}
