package admin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// longStatus returns a function for fake.status with n models, all of one provider.
func longStatus(n int) func(Page) Status {
	return func(p Page) Status {
		s := Status{Ready: true, Page: p, ModelsTotal: n, Providers: []Provider{{Name: "p", TargetsTotal: n}}}
		from, to := p.Cut(n)
		for i := from; i < to; i++ {
			target := Target{Provider: "p", Model: fmt.Sprintf("m%d", i)}
			s.Models = append(s.Models, Model{ID: target.Model, Targets: []Target{target}})
			s.Providers[0].Targets = append(s.Providers[0].Targets, target)
		}
		return s
	}
}

func TestPagesCoverListOnce(t *testing.T) {
	for _, tt := range []struct{ n, size int }{{0, 10}, {1, 10}, {10, 10}, {11, 10}, {20_000, 999}} {
		next := 0
		for page := 1; next < tt.n; page++ {
			from, to := Page{Number: page, Size: tt.size}.Cut(tt.n)
			if from != next || to <= from || to-from > tt.size {
				t.Fatalf("%d entries in pages of %d: page %d is from %d to %d, want it to start at %d", tt.n, tt.size, page, from, to, next)
			}
			next = to
		}
	}
	for _, p := range []Page{{}, {Number: 1}, {Number: 2, Size: 10}, {Number: 1 << 62, Size: 1 << 62}, {Number: -1, Size: 5}} {
		if from, to := p.Cut(10); from != to {
			t.Errorf("%+v of 10 entries is from %d to %d, want no entries", p, from, to)
		}
	}
}

func TestStatusOf20000ModelsHasPages(t *testing.T) {
	address, _ := serve(t, &fake{status: longStatus(20_000)}, Options{})
	_, body := get(t, address, "/status")
	var s Status
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatal(err)
	}
	if len(body) > 250<<10 || len(s.Models) != pageSize || s.ModelsTotal != 20_000 || s.Page.Number != 1 {
		t.Errorf("%d bytes with %d of %d models, page %+v", len(body), len(s.Models), s.ModelsTotal, s.Page)
	}
	_, body = get(t, address, "/status?page=20&size=1000")
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Models) != 1000 || s.Models[999].ID != "m19999" || s.Providers[0].TargetsTotal != 20_000 {
		t.Errorf("the last page has %d models", len(s.Models))
	}
}

func TestStatusPageLinksPages(t *testing.T) {
	address, _ := serve(t, &fake{status: longStatus(500)}, Options{})
	for path, want := range map[string][]string{
		"/":               {"page 1 of 3 (500 models, 0 keys, 0 budgets)", `href="/?page=2">next`, `href="/?still&amp;page=1">pause`},
		"/?page=2":        {"page 2 of 3", `href="/?page=1">previous`, `href="/?page=3">next`},
		"/?still&page=3":  {"page 3 of 3", `href="/?still&amp;page=2">previous`, `href="/?page=3">resume`},
		"/?page=nonsense": {"page 1 of 3"},
	} {
		_, body := get(t, address, path)
		for _, w := range want {
			if !strings.Contains(body, w) {
				t.Errorf("%s lacks %q", path, w)
			}
		}
	}
	address, _ = serve(t, &fake{status: longStatus(3)}, Options{})
	if _, body := get(t, address, "/"); strings.Contains(body, "page 1 of") {
		t.Error("the only page has links to others")
	}
}
