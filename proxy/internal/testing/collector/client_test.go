package collector_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

func sha256Of(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// leave begins to read a stream, and then disconnects. It returns the request's ID.
func leave(t *testing.T, g *proxytest.Gateway, up *provider, path, body, trace string) (id string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+proxytest.Key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Traceparent", trace)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	<-up.streaming
	return resp.Header.Get("X-Request-Id")
}
