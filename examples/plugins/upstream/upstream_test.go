package upstream_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluice-gateway/sluice/examples/plugins/upstream"
)

func TestRejectsInvalidRequests(t *testing.T) {
	server := httptest.NewServer(upstream.Handler{})
	defer server.Close()
	for _, path := range []string{"/", "/say"} {
		resp, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: got %s, want 404", path, resp.Status)
		}
	}
	resp, err := http.Post(server.URL+"/say", "application/json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("POST without turns: got %s, want 400", resp.Status)
	}
}
