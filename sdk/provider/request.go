package provider

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Request is one attempt to have a client's request answered. Its fields are what the gateway knows of the request; its
// methods build the upstream's request. Its slices are valid during the call.
//
// The body is either the client's own with edits (Set, Delete, Rename, Replace), which the gateway applies without the
// body ever being copied into the plugin, or one that is written (JSON, Write). Without either, the client's body is
// sent as it came.
//
// Paths into the client's body are JSON pointers (RFC 6901); in edits the token * stands for every element of an array.
// Edits refer to the body as the client sent it, do not see each other, and are applied together when the call returns.
// An edit returns true if it found something to do.
//
// The methods of Answer are there for a provider that answers at once.
type Request struct {
	sdk.Summary
	Answer

	body    []byte // all of the client's body, once fetched
	writer  json.Writer
	refused string // the first import that the host refused; the call then fails
}

// keepBody is the size up to which the memory of a body is kept for the next request.
const keepBody = 1 << 20

func (r *Request) reset() {
	r.store, r.refused = r.store[:0], ""
	r.writer.Reset()
	if cap(r.body) > keepBody {
		r.body = nil
	}
	if cap(r.store) > keepBody {
		r.store = nil
	}
	if cap(r.writer.Buf) > keepBody {
		r.writer.Buf = nil
	}
	r.body = r.body[:0]
	r.writer.Out = (*bodyOutput)(r)
}

// Body is the client's whole body, which the gateway has checked: it is a JSON object of the convention, valid UTF-8,
// without duplicate members. It is copied into the plugin when it is asked for first.
func (r *Request) Body() []byte {
	if len(r.body) == 0 {
		if cap(r.body) < int(r.BodySize) {
			r.body = make([]byte, 0, r.BodySize)
		}
		r.body, _ = guest.Fetch(&r.body, func(dst []byte) int32 { return host.BodyGet(nil, dst) })
	}
	return r.body
}

// Get is a value of the client's body, nil if there is none. Only that value is copied into the plugin.
func (r *Request) Get(path string) json.Value {
	for {
		// Without the function value that guest.Fetch takes: most members that are asked for are not there.
		n := host.BodyGet(host.Bytes(path), guest.Unused(r.store))
		if n < 0 {
			return nil
		}
		if p, ok := guest.Keep(&r.store, int(n)); ok {
			return p
		}
	}
}

// Exists says whether the client's body has a value, without copying it.
func (r *Request) Exists(path string) bool { return host.BodyGet(host.Bytes(path), nil) >= 0 }

// Set gives a member of the client's body a value, and adds it where there is none.
func (r *Request) Set(path string, value []byte) bool {
	return host.BodySet(host.Bytes(path), value) == abi.StatusOK
}

// SetText is Set with a string.
func (r *Request) SetText(path string, text []byte) bool {
	at := len(r.store)
	r.store = json.AppendString(r.store, text)
	return r.Set(path, r.store[at:])
}

// SetInt is Set with a number.
func (r *Request) SetInt(path string, n int64) bool {
	at := len(r.store)
	r.store = json.AppendInt(r.store, n)
	return r.Set(path, r.store[at:])
}

// Delete removes a member of the client's body.
func (r *Request) Delete(path string) bool {
	return host.BodyDelete(host.Bytes(path)) == abi.StatusOK
}

// Rename gives a member of the client's body another name. It returns false too where that name is taken.
func (r *Request) Rename(path, name string) bool {
	return host.BodyRename(host.Bytes(path), host.Bytes(name)) == abi.StatusOK
}

// Replace gives a member a new value where its value is old: a string, a number or a literal. Both are JSON.
func (r *Request) Replace(path, old, new string) bool {
	return host.BodyReplace(host.Bytes(path), host.Bytes(old), host.Bytes(new)) == abi.StatusOK
}

// SetPath says where the request goes, below the provider's base URL: percent-encoded, with a query if one is needed.
// It must be one of the provider's paths, or the call fails.
func (r *Request) SetPath(path string) {
	r.check(host.RequestPath(host.Bytes(path)), "request_path")
}

// SetHeader adds a header. It must be one of the provider's headers, or the call fails.
func (r *Request) SetHeader(name, value string) {
	r.check(host.RequestHeader(host.Bytes(name), host.Bytes(value)), "request_header")
}

// JSON is the writer of a body of the plugin's own. Large values that are ranges of Body are not copied: the gateway
// puts them into the body itself. What the writer holds at the end of the call is handed on.
func (r *Request) JSON() *json.Writer { return &r.writer }

// Write appends to a body of the plugin's own. Use it or JSON, not both.
func (r *Request) Write(p []byte) { (*bodyOutput)(r).Write(p) }

// ToolAlias says that the tool which is called alias upstream is called name by the client: the gateway turns the
// alias back where it occurs in the answer. It returns false if it is refused.
func (r *Request) ToolAlias(alias, name []byte) bool {
	return host.ToolAlias(alias, name) == abi.StatusOK
}

// Expect says how the upstream's answer is framed and who reads it; options are those of the dialect, or nil. Without
// it the answer is JSON and read by the plugin.
func (r *Request) Expect(framing abi.Framing, dialect abi.Dialect, options []byte) {
	r.check(host.Answer(framing, dialect, options), "answer")
}

// Warn tells the client, in the header x-gateway-warning, that a member of its request was dropped, clamped or changed.
func (r *Request) Warn(kind abi.WarnKind, member string) { host.Warn(kind, host.Bytes(member)) }

func (r *Request) check(s abi.Status, what string) {
	if s != abi.StatusOK && r.refused == "" {
		r.refused = what
	}
}

// finish ends the call: it hands on what the writer holds.
func (r *Request) finish(err error) error {
	if err != nil {
		return err
	}
	r.writer.Flush()
	if r.refused != "" {
		return refusal(r.refused)
	}
	return nil
}

// refusal is the plugin's own failure to keep to the rules of the host: the import that was refused.
type refusal string

func (r refusal) Error() string { return "the gateway rejected " + string(r) }

// bodyOutput is the json.Output of a request's writer.
type bodyOutput Request

// minCopy is the size in bytes from which request_copy is cheaper than request_write.
const minCopy = 64

// Write appends p to the body. If p is a range of the client's body, it passes only the range's offset and length.
func (w *bodyOutput) Write(p []byte) {
	if len(p) >= minCopy && len(w.body) > 0 {
		if offset, ok := host.Offset(w.body, p); ok {
			host.RequestCopy(int32(offset), int32(len(p)))
			return
		}
	}
	host.RequestWrite(p)
}
