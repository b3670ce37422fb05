package responsesocket

import (
	"errors"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
)

// maxLaneName is the maximum length of a stream_id.
const maxLaneName = 256

// create is a response.create message.
type create struct {
	doc      jsondoc.Doc
	message  []byte // that doc has parsed
	lane     string // stream_id; "" for the default lane
	warmUp   bool   // generate is false: no model is called
	hold     bool   // the socket holds the response, because it is not stored
	previous string // previous_response_id; "" for none
}

// parseCreate parses a message, which it may repair in place. If only the lane is known of it, it returns an error and a
// create with that.
func parseCreate(message []byte) (*create, *apierror.Error) {
	c := &create{message: message}
	err := c.doc.Parse(message, jsondoc.Limits{})
	if syntax, ok := errors.AsType[*jsondoc.SyntaxError](err); ok && syntax.Surrogate {
		jsondoc.RepairSurrogates(message)
		err = c.doc.Parse(message, jsondoc.Limits{})
	}
	if err != nil {
		return c, clientapi.Unreadable(err)
	}
	root := c.doc.Root()
	if id := root.Get("stream_id"); id.Exists() && id.Kind() != jsondoc.Null {
		if c.lane = id.Text(); !validLane(c.lane) {
			c.lane = ""
			return c, apierror.Invalid("invalid_stream_id", "stream_id", "Invalid 'stream_id': expected 1 to %d letters, digits, '_', '.' or '-'.", maxLaneName)
		}
	}
	if typ := root.Get("type"); !typ.Is("response.create") {
		return c, apierror.Invalid(clientapi.CodeInvalidValue, "type", "Invalid type: '%s'. The only type of message is 'response.create'.", clientapi.Quotable(typ.Text()))
	}
	if v := root.Get("generate"); v.Exists() && v.Kind() != jsondoc.Null {
		generate, ok := v.Bool()
		if !ok {
			return c, apierror.Invalid(clientapi.CodeInvalidType, "generate", "Invalid type for 'generate': expected a boolean.")
		}
		c.warmUp = !generate
	}
	if root.Get("background").Kind() == jsondoc.True {
		return c, apierror.Invalid(clientapi.CodeUnsupportedParameter, "background", "'background' is not supported over a WebSocket. Send a POST.")
	}
	c.hold = c.warmUp || root.Get("store").Kind() == jsondoc.False
	c.previous = root.Get("previous_response_id").Text()
	return c, nil
}

func validLane(name string) bool {
	return len(name) > 0 && len(name) <= maxLaneName && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == ""
}

// appendBody appends the body of the equivalent POST request. held is what the socket holds of the previous response,
// nil if that is not held. Without it, the request refers to its previous response by its ID.
func (c *create) appendBody(dst []byte, held *responses.Held) []byte {
	dst = append(dst, `{"stream":true`...)
	root := c.doc.Root()
	for v := root.First(); v.Exists(); v = v.Next() {
		switch name := v.Name(); {
		case name.Is("type"), name.Is("stream"), name.Is("stream_id"), name.Is("generate"):
		case held != nil && (name.Is("previous_response_id") || name.Is("input")):
		default:
			dst = append(append(append(append(dst, ','), name.Raw()...), ':'), v.Raw()...)
		}
	}
	if held != nil {
		dst = append(dst, `,"input":[`...)
		dst = append(c.appendInput(dst, held), ']')
		dst = appendInherited(dst, root, held.Members)
	}
	return append(dst, '}')
}

// appendInput appends the items of the request's input: JSON objects separated by commas. Those of the previous response
// that the socket holds come first.
func (c *create) appendInput(dst []byte, held *responses.Held) []byte {
	begin := len(dst)
	add := func(items []byte) {
		if len(items) > 0 && len(dst) > begin {
			dst = append(dst, ',')
		}
		dst = append(dst, items...)
	}
	if held != nil {
		add(held.Input)
		add(held.Output)
	}
	switch in := c.doc.Root().Get("input"); in.Kind() {
	case jsondoc.String:
		add(append(append([]byte(`{"type":"message","role":"user","content":`), in.Raw()...), '}'))
	case jsondoc.Array:
		for item := in.First(); item.Exists(); item = item.Next() {
			add(item.Raw())
		}
	}
	return dst
}

// inherited are the members of a warm-up that a continuing request inherits. It would otherwise have to repeat what the
// warm-up was for.
var inherited = [...]string{"instructions", "tools"}

// appendInherited appends the members of a warm-up that the request does not have.
func appendInherited(dst []byte, request jsondoc.Value, members []byte) []byte {
	var d jsondoc.Doc
	if len(members) == 0 || d.Parse(append(append([]byte{'{'}, members...), '}'), jsondoc.Limits{}) != nil {
		return dst
	}
	for v := d.Root().First(); v.Exists(); v = v.Next() {
		if !request.Get(v.Name().Text()).Exists() {
			dst = append(append(append(append(dst, ','), v.Name().Raw()...), ':'), v.Raw()...)
		}
	}
	return dst
}

// appendMembers appends the members that a request which continues this warm-up inherits.
func (c *create) appendMembers(dst []byte) []byte {
	for _, name := range inherited {
		if v := c.doc.Root().Get(name); v.Exists() {
			if len(dst) > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(append(append(dst, '"'), name...), `":`...), v.Raw()...)
		}
	}
	return dst
}
