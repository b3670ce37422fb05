//go:build node

package e2e_test

import (
	"net/http"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// TestNodeStored has the official Node client make responses in the background, and retrieve, cancel and delete them.
func TestNodeStored(t *testing.T) {
	p := newBackgroundProvider(t)
	finished := false // written and read by handlers, one after the other
	serve := p.Config.Handler
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/finish" {
			finished = true
			return
		}
		serve.ServeHTTP(w, r)
		if finished && r.Method == "POST" {
			p.finish("resp_0") // the first one has been deleted
		}
	})
	g := proxytest.Start(t, backgroundConfig(p, patient, ""))
	t.Setenv("OTHER_KEY", "sk-two-0123456789abcdef")
	t.Setenv("PROVIDER", p.URL)
	runNodeWith(t, "stored.mjs", g, "sk-one-0123456789abcdef")
}
