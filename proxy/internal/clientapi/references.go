package clientapi

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// References are what a request refers to that a provider stores. The values are valid as long as the document.
type References struct {
	// Previous is the ID of the response or message that the request continues, of whatever type. The gateway knows
	// which key has made it.
	Previous jsondoc.Value

	// Compared is the ID of a response or message with whose prompt the provider compares this one, to explain why its
	// cache did not have it.
	Compared jsondoc.Value

	// Item is the first reference to an item of an earlier response. A provider that does not store responses gets the
	// item itself.
	Item jsondoc.Value

	// Object is the first reference to another object of the provider's account, such as a file. The gateway does not
	// know who has made it.
	Object jsondoc.Value

	// Background is set if the response is to be read back later.
	Background bool

	// Stores is set if a later request may refer to the response.
	Stores bool
}

// FindReferences finds what a request refers to, except for Item, which a StatefulRequest knows. They are zero for APIs
// that have no such references, or whose plugins check them.
func FindReferences(d *jsondoc.Doc, api ID) (f References) {
	root := d.Root()
	switch api {
	case Chat:
	case Responses:
		f.Previous, f.Stores = given(root.Get("previous_response_id")), root.Get("store").Kind() != jsondoc.False
		f.Background = root.Get("background").Kind() == jsondoc.True
		f.Compared = root.Get("prompt_cache_options").Get("comparison_response_id")
	case Messages:
		thread := given(root.Get("thread"))
		f.Previous, f.Stores = given(thread.Get("previous_message_id")), thread.Exists()
		if diagnostics := given(root.Get("diagnostics")); diagnostics.Exists() {
			f.Compared, f.Stores = diagnostics.Get("previous_message_id"), true
		}
	default:
		return f
	}
	w := referenceWalk{api: api, previous: f.Previous}
	if d.HasName(referenceLengths, func(name jsondoc.Value) bool { return w.kind(name) != notReference }) && w.walk(root) {
		f.Object = w.found
	}
	return f
}

// Comparable reports whether Compared may be an ID.
func (f *References) Comparable() bool {
	return f.Compared.Kind() == jsondoc.String && len(f.Compared.Inside()) > 1
}

// given returns an optional member, which is absent if it is null.
func given(v jsondoc.Value) jsondoc.Value {
	if !Given(v) {
		return jsondoc.Value{}
	}
	return v
}

// referenceWalk searches a request for a reference to an object of the provider's account. It recognises references by
// the names of their members, which mean the same in all APIs and at every depth.
type referenceWalk struct {
	api      ID
	previous jsondoc.Value
	found    jsondoc.Value
	scratch  []byte
}

// walk searches an object or an array, and reports whether it has found a reference. It skips the client's own data,
// and citations, in which no provider looks for references.
func (w *referenceWalk) walk(v jsondoc.Value) bool {
	for c := v.First(); c.Exists(); c = c.Next() {
		kind := c.Kind()
		if kind < jsondoc.String { // null, a boolean or a number
			continue
		}
		if c.Name().Exists() && w.refers(c, v) {
			w.found = c
			return true
		}
		if kind != jsondoc.String && !freeNames(c) && !c.Name().Is("annotations") && !c.Name().Is("citations") && w.walk(c) {
			return true
		}
	}
	return false
}

// refers reports whether a member of an object is a reference.
func (w *referenceWalk) refers(c, object jsondoc.Value) bool {
	switch w.kind(c.Name()) {
	case referenceID:
		return c != w.previous && (len(c.Inside()) > 0 || c.First().Exists())
	case referenceSkill:
		return !object.Get("type").Is("anthropic") // skills of the provider's own belong to nobody
	case referenceContainer:
		return c.Kind() == jsondoc.String || Given(c.Get("id"))
	case referenceConversation:
		return w.api == Responses
	case referenceObject:
		return Given(c.Get("id"))
	}
	return false
}

// referenceKind tells when a member is a reference.
type referenceKind uint8

const (
	notReference          referenceKind = iota
	referenceID                         // if it is a string or a list
	referenceSkill                      // unless it is a skill of the provider
	referenceContainer                  // if it is a string, or an object with an ID
	referenceConversation               // in the Responses API
	referenceObject                     // if it is an object with an ID
)

// referenceLengths has the bits of the lengths of names that are references.
const referenceLengths = 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<9 | 1<<12 | 1<<13 | 1<<14 | 1<<15 | 1<<16 | 1<<20

func (w *referenceWalk) kind(name jsondoc.Value) referenceKind {
	switch string(Keyword(name, &w.scratch)) {
	case "file_id", "file_ids", "vector_store_id", "vector_store_ids", "container_id", "tunnel_id", "cached_content", "cachedContent",
		"previous_response_id":
		return referenceID
	case "skill_id":
		return referenceSkill
	case "container":
		return referenceContainer
	case "conversation":
		return referenceConversation
	case "prompt", "audio", "voice":
		return referenceObject
	}
	return notReference
}

// PreviousNotFound returns the error for a request of an API that continues what its client has not made, or what
// nobody has made, in the words of that API. A provider of another target may be able to serve the request.
func PreviousNotFound(api ID, v jsondoc.Value) *apierror.Error {
	id := Quotable(v.Text())
	e := apierror.Invalid("previous_response_not_found", "previous_response_id", "Previous response with id '%s' not found.", id)
	if api == Messages {
		e = apierror.Invalid("thread_not_found", "", "thread_not_found: no thread continues after message '%s'; send the whole conversation.", id)
		e.Status = 404
	}
	e.TryNext = true
	return e
}

// ItemNotFound returns the error for an item of a Responses request whose content no response to its client had, or that
// nobody has made. A provider of another target may be able to serve the request.
func ItemNotFound(id string) *apierror.Error {
	e := apierror.Invalid("", "input", "Item with id '%s' not found.", Quotable(id))
	e.TryNext = true
	return e
}

// ObjectNotShared returns the error for a reference to an object of the account of a provider whose objects the clients
// do not share. path is the place of the reference. Another provider may serve the request.
func ObjectNotShared(path string) *apierror.Error {
	return apierror.Fail(abi.FailUnsupported, "", path, "'"+path+"' refers to an object of the provider's account, and the clients of this gateway do not share these objects.")
}
