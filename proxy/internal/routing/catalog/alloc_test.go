//go:build !race

package catalog_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
)

// covers: F12
func TestCachedListDoesNotAllocate(t *testing.T) {
	c := newLargeCatalog(t, 5000)
	ctx := t.Context()
	buf := catalog.AppendList(nil, c.List(ctx))
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := c.Model(ctx, "vendor/model-00042"); !ok {
			t.Fatal("a listed model was not found")
		}
		if _, ok := c.Model(ctx, "unknown"); ok {
			t.Fatal("an unknown model was found")
		}
		buf = catalog.AppendList(buf[:0], c.List(ctx))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
