package bedrock

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// maxCachePoints is the maximum number of cache points in a request.
const maxCachePoints = 4

// reserveCachePoints counts the cache points of tools and system prompt. They precede those of the messages in the
// prompt, so they have priority if there are more than the API accepts.
func (t *translation) reserveCachePoints() {
	if !t.r.Has(sdk.FlagCacheControl) || !t.o.cachePoints() {
		return
	}
	var in, tools json.Reader
	in.Reset(t.r.Body())
	for o := in.Object(); o.Next(); {
		switch string(in.Name()) {
		case "tools":
			tools.Reset(in.Raw())
			for a := tools.Array(); a.Next(); {
				t.reserveCachePoint(t.readTool(&tools).cache)
			}
		case "messages":
			m := &t.message
			for a, n := in.Array(), 0; a.Next(); n++ {
				if t.readMessage(m, &in, n); m.system() {
					t.addSystemMessage(m)
				}
			}
		}
	}
	for _, b := range t.system {
		t.reserveCachePoint(b.cache)
	}
	t.system = t.system[:0]
}

func (t *translation) reserveCachePoint(cache json.Value) {
	if cache.Kind() == json.Object && t.caches < maxCachePoints {
		t.caches++
	}
}

// writeCachePoint writes a cache point after the last block. It drops a client's cache_control beyond the API's maximum
// or for a model without a cache, which makes the request more expensive but does not change the response.
func (t *translation) writeCachePoint(cache json.Value) {
	if cache.Kind() != json.Object {
		return
	}
	if !t.o.cachePoints() || t.caches == maxCachePoints {
		t.r.Warn(abi.WarnDropped, "cache_control")
		return
	}
	t.caches++
	w := t.w
	w.Object()
	w.Name("cachePoint")
	w.Object()
	w.Name("type")
	w.String("default")
	if ttl := cache.Get("ttl"); ttl.Exists() && !ttl.Is("5m") {
		w.Name("ttl") // the default is five minutes
		w.Inside(ttl.Inside())
	}
	w.EndObject()
	w.EndObject()
}
