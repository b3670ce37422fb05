package proxy

import (
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/ownership"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// findReferences finds what the request refers to that a provider stores. It fails if the request continues what the
// client has not made, or asks for a response that the client could not read back.
func (x *completion) findReferences() *apierror.Error {
	x.references = x.api.references(x.request)
	r := &x.references
	if r.Background {
		return apierror.Invalid(clientapi.CodeUnsupportedParameter, "background", "'background' is not supported: the response could not be read back through this gateway.")
	}
	if r.Comparable() {
		if _, known, gone := x.lookUpOrigin(r.Compared); gone != nil {
			return gone
		} else if !known {
			r.Compared.SetNull() // as in the first request of a conversation
			x.request.Describe().Warn(abi.WarnChanged, x.api.path(r.Compared))
		}
	}
	if stateful, ok := x.request.(clientapi.StatefulRequest); ok {
		if gone := x.findForeignItem(stateful); gone != nil {
			return gone
		}
		if own, _ := x.request.Document(); stateful.Expanded() != own {
			return nil // the gateway itself has the response
		}
	}
	if r.Previous.Exists() {
		origin, known, gone := x.lookUpOrigin(r.Previous)
		switch {
		case gone != nil:
			return gone
		case !known:
			return clientapi.PreviousNotFound(x.api.id, r.Previous)
		}
		x.origin = origin
	}
	return nil
}

// findForeignItem finds an item that the request repeats without its content, but that the client has not received. Only
// providers that speak the client's API look such items up.
func (x *completion) findForeignItem(r clientapi.StatefulRequest) (gone *apierror.Error) {
	if !x.generation.storesAtProviders() {
		return nil
	}
	r.StoredItems(func(id jsondoc.Value) (known bool) {
		if _, known, gone = x.lookUpOrigin(id); gone == nil && !known {
			x.foreign = id.Text()
		}
		return known
	})
	return gone
}

// lookUpOrigin returns where the response, message or item with an ID is, and whether the client has made it.
func (x *completion) lookUpOrigin(id jsondoc.Value) (origin ownership.Origin, known bool, gone *apierror.Error) {
	x.watcher.Start()
	origin, known = x.server.owners.Lookup(&x.watcher, x.record.Key, id.Text())
	if err := x.watcher.Finish(); err != nil {
		return origin, false, failure.ForClient(err)
	}
	return origin, known, nil
}

// checkReferences fails if the request must not be sent to a provider in the client's own form (native) or as a chat
// completions request, because of what it refers to.
func (x *completion) checkReferences(p *provider, native bool) *apierror.Error {
	r := &x.references
	object := r.Object
	if native && !object.Exists() {
		object = r.Item
	}
	switch {
	case object.Exists() && !p.sharedObjects:
		e := clientapi.ObjectNotShared(x.api.path(object))
		e.Cause = fmt.Errorf("shared_objects of provider %s is off", p.name)
		return e
	case native && x.foreign != "" && !p.sharedObjects:
		return clientapi.ItemNotFound(x.foreign)
	case !r.Previous.Exists(), native && x.origin.Provider == p.id, !native && x.api.id == clientapi.Responses:
		return nil
	}
	return clientapi.PreviousNotFound(x.api.id, r.Previous)
}

// recordOrigin records where the response and its items are if their provider stores them. It is called before the
// client learns their IDs.
func (x *completion) recordOrigin() {
	if !x.passthrough || !x.references.Stores {
		return
	}
	origin := ownership.Origin{Provider: x.provider.id, Account: uint64(x.account)}
	if !x.owned {
		x.owned = true
		x.server.owners.Record(x.record.Key, string(x.writer.ID()), origin)
	}
	if r, ok := x.reader.(clientapi.ItemReader); ok {
		for _, id := range r.TakeStoredItems() {
			x.server.owners.Record(x.record.Key, id, origin)
		}
	}
}
