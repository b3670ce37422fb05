package provider

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Request is one attempt to serve a client's request. Its fields describe the client's request; its methods build the upstream
// request. Slices are valid during the call.
//
// By default the client's body is sent unchanged. A provider either edits it (Set, Delete, Rename, Replace), which the
// gateway does without copying the body into the plugin, or writes another one (JSON, Write).
//
// Paths into the client's body are JSON pointers (RFC 6901); in edits the token * matches every element of an array. Edits
// refer to the body as the client sent it, do not see each other, and are applied together when the call returns. They
// return true if the path exists.
//
// A provider that responds immediately uses the methods of Answer.
type Request struct {
	sdk.Summary
	Answer

	body    []byte // the client's body; empty until Body is called
	parts   [abi.MaxParts]part
	used    int32  // the highest part whose writer the plugin has
	written int32  // the part that the gateway appends to
	last    int32  // the highest part that has been written
	refused string // the first import that the gateway refused
}

// keepBody is the size up to which a buffer is kept for the next request.
const keepBody = 1 << 20

func (r *Request) reset() {
	r.store, r.refused = r.store[:0], ""
	if cap(r.body) > keepBody {
		r.body = nil
	}
	if cap(r.store) > keepBody {
		r.store = nil
	}
	r.body = r.body[:0]
	for n := range r.used + 1 {
		w := &r.parts[n].writer
		if w.Reset(); cap(w.Buf) > keepBody {
			w.Buf = nil
		}
	}
	r.used, r.written, r.last = 0, 0, 0
}

// Body returns the client's body, which the gateway has validated: it is a request in the API that Form names, a chat completions
// request unless the provider is a Former, in valid UTF-8 without duplicate members. The first call copies it into the plugin.
func (r *Request) Body() []byte {
	if len(r.body) == 0 {
		if cap(r.body) < int(r.BodySize) {
			r.body = make([]byte, 0, r.BodySize)
		}
		r.body, _ = guest.Fetch(&r.body, func(dst []byte) int32 { return host.BodyGet(nil, dst) })
	}
	return r.body
}

// Get returns a value of the client's body, nil if there is none. It copies only that value into the plugin.
func (r *Request) Get(path string) json.Value {
	for {
		// Like guest.Fetch, without a function value: most calls ask for a member that does not exist.
		n := host.BodyGet(host.Bytes(path), guest.Unused(r.store))
		if n < 0 {
			return nil
		}
		if p, ok := guest.Keep(&r.store, int(n)); ok {
			return p
		}
	}
}

// Exists reports whether the client's body contains a value, without copying it.
func (r *Request) Exists(path string) bool { return host.BodyGet(host.Bytes(path), nil) >= 0 }

// Set sets a member of the client's body, and adds it if there is none.
func (r *Request) Set(path string, value []byte) bool {
	return host.BodySet(host.Bytes(path), value) == abi.StatusOK
}

// SetText is Set for a string.
func (r *Request) SetText(path string, text []byte) bool {
	at := len(r.store)
	r.store = json.AppendString(r.store, text)
	return r.Set(path, r.store[at:])
}

// SetInt is Set for a number.
func (r *Request) SetInt(path string, n int64) bool {
	at := len(r.store)
	r.store = json.AppendInt(r.store, n)
	return r.Set(path, r.store[at:])
}

// Delete removes a member of the client's body.
func (r *Request) Delete(path string) bool {
	return host.BodyDelete(host.Bytes(path)) == abi.StatusOK
}

// Rename renames a member of the client's body. It returns false as well if the new name exists.
func (r *Request) Rename(path, name string) bool {
	return host.BodyRename(host.Bytes(path), host.Bytes(name)) == abi.StatusOK
}

// Replace sets a member to new if its value equals old, a string, number or literal. Both values are JSON.
func (r *Request) Replace(path, old, new string) bool {
	return host.BodyReplace(host.Bytes(path), host.Bytes(old), host.Bytes(new)) == abi.StatusOK
}

// SetPath sets the path of the request below the provider's base URL, percent-encoded, with an optional query. If it is not one
// of the provider's paths, the call fails.
func (r *Request) SetPath(path string) {
	r.check(host.RequestPath(host.Bytes(path)), "request_path")
}

// SetHeader sets a header. If it is not one of the provider's headers, the call fails.
func (r *Request) SetHeader(name, value string) {
	r.check(host.RequestHeader(host.Bytes(name), host.Bytes(value)), "request_header")
}

// JSON returns the writer of the upstream body. Large values that are slices of Body are not copied: the gateway inserts them.
// The writer is flushed at the end of the call.
func (r *Request) JSON() *json.Writer { return r.Part(0) }

// Part returns the writer of a part of the upstream body, 0 <= n < abi.MaxParts; JSON is that of part 0. The body is the parts
// in the order of their numbers, whatever the order in which they are written: so what is known last can stand first, such
// as tools and system prompt in front of the messages, for the sake of prompt caches. A writer knows nothing of the parts before its
// own: see json.Writer.Comma.
func (r *Request) Part(n int) *json.Writer {
	p := &r.parts[n]
	if p.request == nil {
		p.request, p.number, p.writer.Out = r, int32(n), p
	}
	r.used = max(r.used, p.number)
	return &p.writer
}

// Write appends to the upstream body. Use either Write or JSON.
func (r *Request) Write(p []byte) { r.Part(0).Out.Write(p) }

// ToolAlias declares that the upstream receives the client's tool name as alias: the gateway restores the name in the response.
// It returns false if the alias is refused.
func (r *Request) ToolAlias(alias, name []byte) bool {
	return host.ToolAlias(alias, name) == abi.StatusOK
}

// Expect sets how the upstream's response is framed and who reads it; options are those of the dialect, or nil. The default
// is JSON that the plugin reads. With abi.FramingEventsAreJSON added to the framing, the gateway refuses what is not JSON.
func (r *Request) Expect(framing abi.Framing, dialect abi.Dialect, options []byte) {
	r.check(host.Answer(framing, dialect, options), "answer")
}

// Warn reports to the client, in the header x-gateway-warning, that a member of its request was dropped, clamped or changed.
func (r *Request) Warn(kind abi.WarnKind, member string) { host.Warn(kind, host.Bytes(member)) }

// check records the first import that the gateway refused; the call then fails.
func (r *Request) check(s abi.Status, what string) {
	if s != abi.StatusOK && r.refused == "" {
		r.refused = what
	}
}

// finish flushes the writer and returns the error of the call.
func (r *Request) finish(err error) error {
	if err != nil {
		return err
	}
	for n := range r.used + 1 {
		if w := &r.parts[n].writer; len(w.Buf) > 0 {
			if r.written == r.last && n > r.last {
				r.written = n // stands at the end as it is
			}
			w.Flush()
		}
	}
	if r.refused != "" {
		return refusal(r.refused)
	}
	return nil
}

// refusal is the name of an import that the gateway refused because the plugin broke a rule.
type refusal string

func (r refusal) Error() string { return "the gateway rejected " + string(r) }

// part is a part of the upstream body, and the json.Output of its writer.
type part struct {
	request *Request
	number  int32
	writer  json.Writer
}

// minCopy is the size in bytes from which request_copy is cheaper than request_write.
const minCopy = 64

// Write appends p to the body. If p is a range of the client's body, it passes only the range's offset and length.
func (w *part) Write(p []byte) {
	r := w.request
	if r.written != w.number {
		r.written = w.number
		host.RequestPart(w.number)
	}
	r.last = max(r.last, w.number)
	if len(p) >= minCopy && len(r.body) > 0 {
		if offset, ok := host.Offset(r.body, p); ok {
			host.RequestCopy(int32(offset), int32(len(p)))
			return
		}
	}
	host.RequestWrite(p)
}
