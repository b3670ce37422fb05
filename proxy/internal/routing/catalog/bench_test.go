package catalog_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
)

// newLargeCatalog returns a catalog with n listed models.
func newLargeCatalog(tb testing.TB, n int) *catalog.Catalog {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("vendor/model-%05d", i)
	}
	s := &fakeLister{lists: map[string]func(context.Context, int) ([]catalog.Listed, error){"up": always(names...)}}
	c := catalog.New(parse(tb, oneProvider), s, catalog.Options{})
	tb.Cleanup(c.Close)
	if got := len(c.List(tb.Context())); got != n {
		tb.Fatalf("%d models, want %d", got, n)
	}
	return c
}

func BenchmarkList5000(b *testing.B) {
	c := newLargeCatalog(b, 5000)
	ctx := b.Context()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = catalog.AppendList(buf[:0], c.List(ctx))
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkModel5000(b *testing.B) {
	c := newLargeCatalog(b, 5000)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := c.Model(ctx, "vendor/model-02500"); !ok {
			b.Fatal("a listed model was not found")
		}
	}
}
