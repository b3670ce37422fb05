package provider

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Request is one attempt to serve a client's request. Its fields describe the client's request; its methods build the
// upstream request. Slices are valid until the call returns.
//
// By default the client's body is sent unchanged. A provider either edits it (Set, Delete, Rename, Replace), without
// the body being copied into the plugin, or writes another one (JSON, Part, Write).
//
// Paths into the client's body are JSON pointers (RFC 6901). In edits, the token * matches every element of an array.
// Edits apply to the body as the client sent it: they do not see each other, and take effect together when the call
// returns. An edit returns true if its path exists.
//
// A provider that responds immediately uses the methods of Answer.
type Request struct {
	sdk.Summary
	Answer

	body       []byte // the client's body; empty until Body is called
	bounds     json.Bounds
	boundsList []byte // the list of bounds
	parts      [abi.MaxParts]part
	used       int32  // highest part whose writer the plugin has requested
	written    int32  // part that the gateway currently appends to
	last       int32  // highest part that has been written to
	rejected   string // name of the first import that the gateway rejected, empty if none
}

// keepBody is the largest capacity of a buffer, in bytes, that is kept for the next request.
const keepBody = 1 << 20

func (r *Request) reset() {
	r.store, r.rejected = r.store[:0], ""
	if cap(r.body) > keepBody {
		r.body = nil
	}
	if cap(r.store) > keepBody {
		r.store = nil
	}
	if cap(r.boundsList) > keepBody {
		r.boundsList = nil
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

// Body returns the client's body, which the gateway has validated: valid UTF-8 without duplicate members, in the format
// of the API that Form names (chat completions, unless the provider is a Former). The first call copies it into the
// plugin.
func (r *Request) Body() []byte {
	if len(r.body) == 0 {
		if cap(r.body) < int(r.BodySize) { // known if SummaryParts includes it
			r.body = make([]byte, 0, r.BodySize)
		}
		r.body, _ = guest.Fetch(&r.body, func(dst []byte) int32 { return host.BodyGet(nil, dst) })
	}
	return r.body
}

// The body is read with the bounds of its values from minBounds bytes on, those of the values that have boundsOf bytes.
const (
	minBounds = 4 << 10
	boundsOf  = 256
)

// bodyIndexMinor is the minor version of the ABI that added the import body_index.
const bodyIndexMinor = 6

// ReadBody makes a reader read the client's body. For a large body that takes much less time than reading what Body
// returns, because the gateway knows where long texts end.
func (r *Request) ReadBody(in *json.Reader) {
	body := r.Body()
	if len(body) < minBounds || host.HostMinor() < bodyIndexMinor {
		in.ResetChecked(body)
		return
	}
	r.boundsList = r.boundsList[:0]
	list, _ := guest.Fetch(&r.boundsList, func(dst []byte) int32 { return host.BodyIndex(boundsOf, dst) })
	r.bounds.Reset(list)
	in.ResetBounds(body, &r.bounds)
}

// Get returns a value of the client's body, or nil if the path does not exist. It copies only that value into the
// plugin.
func (r *Request) Get(path string) json.Value {
	for {
		// This is guest.Fetch without a function value, because most calls ask for a member that does not exist.
		n := host.BodyGet(host.Bytes(path), guest.Unused(r.store))
		if n < 0 {
			return nil
		}
		if p, ok := guest.Keep(&r.store, int(n)); ok {
			return p
		}
	}
}

// Exists reports whether the path exists in the client's body, without copying the value.
func (r *Request) Exists(path string) bool { return host.BodyGet(host.Bytes(path), nil) >= 0 }

// Count returns the number of elements of an array of the client's body, or of members of an object, and 0 for anything
// else. Gateways before version 1.7 of the ABI fail the call.
func (r *Request) Count(path string) int { return int(max(host.BodyCount(host.Bytes(path)), 0)) }

// Set sets a member of the client's body, adding it if it does not exist.
func (r *Request) Set(path string, value []byte) bool {
	return host.BodySet(host.Bytes(path), value) == abi.StatusOK
}

// SetText is like Set with a string as the value.
func (r *Request) SetText(path string, text []byte) bool {
	at := len(r.store)
	r.store = json.AppendString(r.store, text)
	return r.Set(path, r.store[at:])
}

// SetInt is like Set with a number as the value.
func (r *Request) SetInt(path string, n int64) bool {
	at := len(r.store)
	r.store = json.AppendInt(r.store, n)
	return r.Set(path, r.store[at:])
}

// Delete removes a member of the client's body.
func (r *Request) Delete(path string) bool {
	return host.BodyDelete(host.Bytes(path)) == abi.StatusOK
}

// Rename renames a member of the client's body. It also returns false if the new name exists already.
func (r *Request) Rename(path, name string) bool {
	return host.BodyRename(host.Bytes(path), host.Bytes(name)) == abi.StatusOK
}

// Replace sets a member to new if its value equals old, which is a string, number or literal. Both are JSON.
func (r *Request) Replace(path, old, new string) bool {
	return host.BodyReplace(host.Bytes(path), host.Bytes(old), host.Bytes(new)) == abi.StatusOK
}

// SetPath sets the path of the upstream request below the provider's base URL: percent-encoded, with an optional query.
// If it matches none of the provider's paths, the call fails.
func (r *Request) SetPath(path string) {
	r.check(host.RequestPath(host.Bytes(path)), "request_path")
}

// SetHeader sets a header of the upstream request. If it is not one of the provider's headers, the call fails.
func (r *Request) SetHeader(name, value string) {
	r.check(host.RequestHeader(host.Bytes(name), host.Bytes(value)), "request_header")
}

// JSON returns a writer for the upstream body. Large values that are slices of Body are not copied; the gateway inserts
// them. The writer is flushed at the end of the call.
func (r *Request) JSON() *json.Writer { return r.Part(0) }

// Part returns the writer for part n of the upstream body, 0 <= n < abi.MaxParts; JSON returns the writer for part 0.
// The body consists of the parts in ascending order, in whatever order they were written. This lets a plugin put in
// front what it knows last, such as tools and system prompt before the messages, which keeps the prefix stable for
// prompt caches. A writer does not know what the preceding parts contain: see json.Writer.Comma.
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

// ToolAlias declares that the upstream receives the client's tool name as alias; the gateway restores the name in the
// response. It returns false if the gateway rejects the alias.
func (r *Request) ToolAlias(alias, name []byte) bool {
	return host.ToolAlias(alias, name) == abi.StatusOK
}

// Expect sets the framing of the upstream's response and its dialect, that is, who reads it. options is a JSON object
// with the dialect's options, or nil. The default is one JSON document that the plugin reads. With
// abi.FramingEventsAreJSON added to the framing, the gateway rejects events that are not JSON.
func (r *Request) Expect(framing abi.Framing, dialect abi.Dialect, options []byte) {
	r.check(host.Answer(framing, dialect, options), "answer")
}

// Warn reports to the client, in the header x-gateway-warning, that a member of its request was dropped, clamped or
// changed.
func (r *Request) Warn(kind abi.WarnKind, member string) { host.Warn(kind, host.Bytes(member)) }

// check records the first import that the gateway rejected, which makes the call fail.
func (r *Request) check(s abi.Status, name string) {
	if s != abi.StatusOK && r.rejected == "" {
		r.rejected = name
	}
}

// finish flushes the writers and returns the error of the call.
func (r *Request) finish(err error) error {
	if err != nil {
		return err
	}
	for n := range r.used + 1 {
		if w := &r.parts[n].writer; len(w.Buf) > 0 {
			if r.written == r.last && n > r.last {
				r.written = n // appending to the last part written so far gives the same body, without request_part
			}
			w.Flush()
		}
	}
	if r.rejected != "" {
		return rejectedImport(r.rejected)
	}
	return nil
}

// rejectedImport is the error of a call in which the gateway rejected an import because the plugin broke a rule.
type rejectedImport string

func (r rejectedImport) Error() string { return "the gateway rejected " + string(r) }

// part is a part of the upstream body, and the json.Output of the part's writer.
type part struct {
	request *Request
	number  int32
	writer  json.Writer
}

// minCopy is the size in bytes from which request_copy is cheaper than request_write.
const minCopy = 64

// Write appends p to the part. If p is a slice of the client's body, only its offset and length are passed to the
// gateway.
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
