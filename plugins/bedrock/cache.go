package bedrock

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// maxCachePoints is how many cache points the API takes in one request.
const maxCachePoints = 4

// writeCachePoint writes a cache point after the block that was written last. A client's cache_control beyond what the
// API takes, or for a model without a cache, costs a response nothing but the saving: it is dropped.
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
		w.Name("ttl") // five minutes are the default
		w.Inside(ttl.Inside())
	}
	w.EndObject()
	w.EndObject()
}
