package ownership

import (
	"context"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// References are what a request refers to that a provider stores. They are valid as long as the request's document,
// except for Stores.
type References struct {
	clientapi.References
	Origin  Origin // of Previous
	Foreign string // ID of the first item that the request repeats without its content, but that the client has not received

	api      *clientapi.API
	id       clientapi.ID
	recorded bool // Record has recorded the response
}

// Find finds what a request of an API refers to.
func (r *References) Find(q clientapi.Request, api *clientapi.API, id clientapi.ID) {
	doc, _ := q.Document()
	r.References, r.api, r.id = clientapi.FindReferences(doc, id), api, id
	if stateful, ok := q.(clientapi.StatefulRequest); ok {
		r.Item = stateful.ItemReference()
	}
}

// LookUp finds out where it is what the request refers to. It fails if the request continues what the client has not
// made, or asks for a response that the client could not read back. Items are only looked up if stored is set: if a
// provider may store some.
func (r *References) LookUp(ctx context.Context, s *Store, client string, q clientapi.Request, stored bool) *apierror.Error {
	if r.Background && !r.Stores {
		return apierror.Invalid(clientapi.CodeUnsupportedParameter, "background", "'background' needs 'store': the response could not be read back.")
	}
	if r.Comparable() {
		if _, known := s.Lookup(ctx, client, r.Compared.Text()); !known {
			r.Compared.SetNull() // as in the first request of a conversation
			q.Describe().Warn(abi.WarnChanged, r.path(r.Compared))
		}
	}
	if stateful, ok := q.(clientapi.StatefulRequest); ok {
		if stored {
			r.Foreign = foreignItem(ctx, s, client, stateful)
		}
		if own, _ := q.Document(); stateful.Expanded() != own {
			return nil // the gateway itself has the response
		}
	}
	if r.Previous.Exists() {
		var known bool
		if r.Origin, known = s.Lookup(ctx, client, r.Previous.Text()); !known {
			return clientapi.PreviousNotFound(r.id, r.Previous)
		}
	}
	return nil
}

// foreignItem returns the ID of the first item that the request repeats without its content, but that the client has not
// received; "" if there is none.
func foreignItem(ctx context.Context, s *Store, client string, q clientapi.StatefulRequest) (id string) {
	q.StoredItems(func(v jsondoc.Value) bool {
		_, known := s.Lookup(ctx, client, v.Text())
		if !known {
			id = v.Text()
		}
		return known
	})
	return id
}

// Check fails if the request must not be sent to a provider in the client's own form (native) or as a chat completions
// request, because of what it refers to. shared is set if the clients share the objects of the provider's account.
func (r *References) Check(provider string, shared, native bool) *apierror.Error {
	object := r.Object
	if native && !object.Exists() {
		object = r.Item
	}
	switch {
	case object.Exists() && !shared:
		e := clientapi.ObjectNotShared(r.path(object))
		e.Cause = fmt.Errorf("shared_objects of provider %s is off", provider)
		return e
	case native && r.Foreign != "" && !shared:
		return clientapi.ItemNotFound(r.Foreign)
	case !r.Previous.Exists(), native && r.Origin.Provider == ProviderID(provider), !native && r.id == clientapi.Responses:
		return nil
	}
	return clientapi.PreviousNotFound(r.id, r.Previous)
}

// Record records that a client has made a response, and the items of it that reader has read since the last call, if
// their provider stores them. It must be called before the client learns their IDs.
func (r *References) Record(s *Store, client string, response []byte, reader clientapi.Reader, o Origin) {
	if !r.Stores {
		return
	}
	if !r.recorded {
		r.recorded = true
		s.Record(client, string(response), o)
	}
	if items, ok := reader.(clientapi.ItemReader); ok {
		for _, id := range items.TakeStoredItems() {
			s.Record(client, id, o)
		}
	}
}

// path returns the path of a value of the request in an error.
func (r *References) path(v jsondoc.Value) string {
	if r.api.Path == nil {
		return clientapi.Path(v)
	}
	return r.api.Path(v)
}
