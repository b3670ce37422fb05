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

// The words for how far a response or an item is.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// status is what a response is that has finished.
func (r *Renderer) status() string {
	if r.reason == abi.FinishLength || r.reason == abi.FinishContentFilter {
		return statusIncomplete
	}
	return statusCompleted
}

// start writes the events that begin a stream, unless they have been.
func (r *Renderer) start() {
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
	r.asked.release(&r.out)
}

// endResponse ends an event with the response as it is at its end.
func (r *Renderer) endResponse(usage *response.Usage, e *apierror.Error) {
	status := r.status()
	if e != nil {
		status = statusFailed
	}
	r.out.Buf = r.appendResponse(append(r.out.Buf, `,"response":`...), status, usage, e, false)
	r.endEvent()
}

// appendResponse appends the response object. whole is whether it repeats the instructions and the tools of the request, which
// an open stream does not keep for its last event.
func (r *Renderer) appendResponse(dst []byte, status string, usage *response.Usage, e *apierror.Error, whole bool) []byte {
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
	dst = append(append(dst, ']'), r.asked.echo...)
	instructions, tools := r.asked.instructions, r.asked.list
	if !whole {
		instructions, tools = nil, nil
	}
	dst = appendElse(append(dst, `,"instructions":`...), instructions, "null")
	dst = appendElse(append(dst, `,"tools":`...), tools, "[]")
	dst = append(dst, `,"usage":`...)
	if usage == nil {
		return append(dst, "null}"...)
	}
	return append(appendUsage(dst, usage), '}')
}

// appendElse appends a value, or what stands for none.
func appendElse(dst, value []byte, none string) []byte {
	if len(value) == 0 {
		return append(dst, none...)
	}
	return append(dst, value...)
}

// appendOutput appends the items of the output with commas between. One that is open is incomplete.
func (r *Renderer) appendOutput(dst []byte) []byte {
	for n := range r.items {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = r.appendItem(dst, n, itemEnds)
	}
	return dst
}

// appendUsage appends the usage object. Its details are whole: clients refuse a part of them.
func appendUsage(dst []byte, u *response.Usage) []byte {
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), u.Prompt, 10)
	dst = strconv.AppendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), u.Cached, 10)
	dst = strconv.AppendInt(append(dst, `,"cache_write_tokens":`...), u.CacheWrite, 10)
	dst = strconv.AppendInt(append(dst, `},"output_tokens":`...), u.Completion, 10)
	dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), u.Reasoning, 10)
	dst = strconv.AppendInt(append(dst, `},"total_tokens":`...), u.Total, 10)
	return append(dst, '}')
}

// appendError appends the member error of a response, null for none.
func appendError(dst []byte, e *apierror.Error) []byte {
	if e == nil {
		return append(dst, "null"...)
	}
	dst = append(append(append(dst, `{"code":"`...), errorCode(e)...), `","message":"`...)
	dst = jsondoc.AppendEscaped(dst, []byte(e.Message))
	if e.Kind == apierror.KindRateLimit && e.RetryAfter > 0 {
		// Clients read the delay from the message.
		seconds := (e.RetryAfter.Milliseconds() + 999) / 1000
		dst = append(strconv.AppendInt(append(dst, ` Please try again in `...), seconds, 10), "s."...)
	}
	return append(dst, `"}`...)
}

// errorCode is the code of a failure in a response: one of the API's own, or one that clients look for.
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

// The ids of a response and of its items differ in the prefix and the last digits only: who has one of them finds the others.
const (
	responsePrefix = "resp_"
	idLength       = 44 // hexadecimal digits that they have in common
	idDigits       = 4  // at least, of what follows them: 0 for the response, 1 for its first item
)

// appendID appends the id of the response: the gateway's, or where the response is passed on, the provider's.
func (r *Renderer) appendID(dst []byte) []byte {
	if r.pass.on {
		return append(dst, r.head.ID...)
	}
	r.makeID()
	return r.appendNumbered(append(dst, responsePrefix...), 0)
}

// appendItemID appends the id of an item.
func (r *Renderer) appendItemID(dst []byte, n int) []byte {
	r.makeID()
	return r.appendNumbered(append(dst, idPrefixes[r.items[n].kind]...), n+1)
}

// makeID makes what the ids have in common, once.
func (r *Renderer) makeID() {
	if r.id[0] == 0 {
		sum := sha256.Sum256([]byte(r.head.OwnID))
		hex.Encode(r.id[:], sum[:idLength/2])
	}
}

func (r *Renderer) appendNumbered(dst []byte, n int) []byte {
	dst = append(dst, r.id[:]...)
	for digit := idDigits - 1; digit > 0 && n < 1<<(4*digit); digit-- {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(n), 16)
}

// responseOf returns the id of the response that has an item, "" if the item's id is not one of the gateway's.
func responseOf(item string) string {
	for _, prefix := range idPrefixes {
		if id, ok := strings.CutPrefix(item, prefix); ok && len(id) >= idLength+idDigits {
			return responsePrefix + id[:idLength] + strings.Repeat("0", idDigits)
		}
	}
	return ""
}
