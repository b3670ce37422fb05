package responses

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// The status of a response or an item.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// status returns the status of a response that has finished.
func (r *renderer) status() string {
	if r.reason == abi.FinishLength || r.reason == abi.FinishContentFilter {
		return statusIncomplete
	}
	return statusCompleted
}

// writeStart writes the events that begin a stream, unless they have been written.
func (r *renderer) writeStart() {
	if r.started {
		return
	}
	r.started = true
	for _, name := range [...]string{"response.created", "response.in_progress"} {
		r.beginEvent(name)
		r.out.Buf = append(r.out.Buf, `,"response":`...)
		r.out.Buf = r.appendResponse(r.out.Buf, statusInProgress, nil, nil, name == "response.created")
		r.endEvent()
	}
	r.request.release(&r.out)
}

// endResponse ends an event with the final response object.
func (r *renderer) endResponse(usage *response.Usage, e *apierror.Error) {
	status := r.status()
	if e != nil {
		status = statusFailed
	}
	r.out.Buf = r.appendResponse(append(r.out.Buf, `,"response":`...), status, usage, e, false)
	r.endEvent()
}

// appendResponse appends the response object. withRequest adds the instructions and tools of the request, which a
// stream does not keep for its last event.
func (r *renderer) appendResponse(dst []byte, status string, usage *response.Usage, e *apierror.Error, withRequest bool) []byte {
	r.head.Fix()
	dst = r.appendID(append(dst, `{"id":"`...))
	dst = strconv.AppendInt(append(dst, `","object":"response","created_at":`...), r.head.Created, 10)
	dst = append(append(append(dst, `,"status":"`...), status...), `","completed_at":`...)
	if status == statusCompleted {
		dst = strconv.AppendInt(dst, max(r.now().Unix(), r.head.Created), 10)
	} else {
		dst = append(dst, "null"...)
	}
	dst = appendError(append(dst, `,"error":`...), e)
	dst = append(dst, `,"incomplete_details":`...)
	switch {
	case status != statusIncomplete:
		dst = append(dst, "null"...)
	case r.reason == abi.FinishContentFilter:
		dst = append(dst, `{"reason":"content_filter"}`...)
	default:
		dst = append(dst, `{"reason":"max_output_tokens"}`...)
	}
	dst = append(append(append(dst, `,"model":"`...), r.head.Model...), `","output":[`...)
	if status != statusInProgress {
		dst = r.appendOutput(dst)
	}
	dst = append(append(dst, ']'), r.request.echo...)
	instructions, tools := r.request.instructions, r.request.list
	if !withRequest {
		instructions, tools = nil, nil
	}
	dst = appendOrDefault(append(dst, `,"instructions":`...), instructions, "null")
	dst = appendOrDefault(append(dst, `,"tools":`...), tools, "[]")
	dst = append(dst, `,"usage":`...)
	if usage == nil {
		return append(dst, "null}"...)
	}
	return append(appendUsage(dst, usage), '}')
}

// appendOrDefault appends a value, or a default if it is empty.
func appendOrDefault(dst, value []byte, otherwise string) []byte {
	if len(value) == 0 {
		return append(dst, otherwise...)
	}
	return append(dst, value...)
}

// appendOutput appends the items of the output, separated by commas. An item that is still open is incomplete.
func (r *renderer) appendOutput(dst []byte) []byte {
	for n := range r.items {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = r.appendItem(dst, n, itemDone)
	}
	return dst
}

// appendUsage appends the usage object. It always has all details, because clients reject partial ones.
func appendUsage(dst []byte, u *response.Usage) []byte {
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), u.Prompt, 10)
	dst = strconv.AppendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), u.Cached, 10)
	dst = strconv.AppendInt(append(dst, `,"cache_write_tokens":`...), u.CacheWrite, 10)
	dst = strconv.AppendInt(append(dst, `},"output_tokens":`...), u.Completion, 10)
	dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), u.Reasoning, 10)
	dst = strconv.AppendInt(append(dst, `},"total_tokens":`...), u.Total, 10)
	return append(dst, '}')
}

// appendError appends the value of a response's member error, null if e is nil.
func appendError(dst []byte, e *apierror.Error) []byte {
	if e == nil {
		return append(dst, "null"...)
	}
	dst = append(append(append(dst, `{"code":"`...), errorCode(e)...), `","message":"`...)
	dst = jsondoc.AppendEscaped(dst, []byte(e.Message))
	if e.Kind == apierror.KindRateLimit && e.RetryAfter > 0 {
		// Clients parse the delay from the message.
		seconds := (e.RetryAfter.Milliseconds() + 999) / 1000
		dst = append(strconv.AppendInt(append(dst, ` Please try again in `...), seconds, 10), "s."...)
	}
	return append(dst, `"}`...)
}

// errorCode returns the error code of a failed response: one that the API defines or that clients check for.
func errorCode(e *apierror.Error) string {
	switch {
	case e.Code == "context_length_exceeded", e.Code == "insufficient_quota":
		return e.Code
	case e.Kind == apierror.KindInsufficientQuota:
		return "insufficient_quota"
	case e.Kind == apierror.KindRateLimit:
		return "rate_limit_exceeded"
	case e.Kind == apierror.KindInvalidRequest:
		return "invalid_prompt"
	}
	return "server_error"
}

// The IDs of a response and its items differ only in the prefix and the last digits, so an item's ID leads to its
// response.
const (
	responsePrefix = "resp_"
	idLength       = 44 // number of common hexadecimal digits
	idDigits       = 4  // minimum number of digits after them, which number the response (0) and its items (from 1)
)

// appendID appends the response's ID: the gateway's, or the provider's if the response is passed on.
func (r *renderer) appendID(dst []byte) []byte {
	if r.pass.on {
		return append(dst, r.head.ID...)
	}
	r.makeID()
	n := len(dst)
	dst = r.appendNumbered(append(dst, responsePrefix...), 0)
	r.head.SetClientID(dst[n:])
	return dst
}

// appendItemID appends the ID of an item.
func (r *renderer) appendItemID(dst []byte, n int) []byte {
	r.makeID()
	return r.appendNumbered(append(dst, idPrefixes[r.items[n].kind]...), n+1)
}

// makeID computes the common part of the IDs, once.
func (r *renderer) makeID() {
	if r.id[0] == 0 {
		sum := sha256.Sum256([]byte(r.head.OwnID))
		hex.Encode(r.id[:], sum[:idLength/2])
	}
}

func (r *renderer) appendNumbered(dst []byte, n int) []byte {
	dst = append(dst, r.id[:]...)
	for digit := idDigits - 1; digit > 0 && n < 1<<(4*digit); digit-- {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(n), 16)
}

// responseID returns the ID of the response that an item belongs to, "" if the gateway did not create the item's ID.
func responseID(item string) string {
	for _, prefix := range idPrefixes {
		if id, ok := strings.CutPrefix(item, prefix); ok && len(id) >= idLength+idDigits {
			return responsePrefix + id[:idLength] + strings.Repeat("0", idDigits)
		}
	}
	return ""
}
