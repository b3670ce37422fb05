package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// TestStatusOf20000Models reads all pages of /status, and checks the size of the first and of the HTML page.
func TestStatusOf20000Models(t *testing.T) {
	n := scale(20_000, 3_000)
	var text strings.Builder
	text.WriteString("[providers.demo]\nplugin = \"demo\"\n")
	for i := range n {
		fmt.Fprintf(&text, "[[models]]\nid = \"m%d\"\ntargets = [{ provider = \"demo\" }]\n", i)
	}
	url := proxytest.Start(t, text.String()).Admin(t)
	for _, path := range []string{"/status", "/"} {
		if _, body := proxytest.Get(t, url+path); len(body) > 300<<10 {
			t.Errorf("%s has %d bytes, want at most 300 KiB", path, len(body))
		}
	}
	seen := map[string]bool{}
	for page := 1; page <= n/1000; page++ {
		_, body := proxytest.Get(t, fmt.Sprintf("%s/status?page=%d&size=1000", url, page))
		var s admin.Status
		if err := json.Unmarshal([]byte(body), &s); err != nil {
			t.Fatal(err)
		}
		if s.ModelsTotal != n || len(s.Providers) != 1 || s.Providers[0].TargetsTotal != n || len(s.Providers[0].Targets) != 1000 {
			t.Fatalf("page %d: %d models in total, providers with %d of %d targets", page, s.ModelsTotal, len(s.Providers[0].Targets), s.Providers[0].TargetsTotal)
		}
		for _, m := range s.Models {
			seen[m.ID] = true
		}
	}
	if len(seen) != n {
		t.Errorf("the pages have %d models, want %d", len(seen), n)
	}
}
