package webhook_test

import (
	"bytes"
	"crypto/hmac"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/internal/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "0123456789abcdef"

// TestDelivery checks what becomes of an alert with the responses of a receiver.
func TestDelivery(t *testing.T) {
	for _, c := range []struct {
		name              string
		responses         []int // the last one is repeated; 0 closes the connection
		requests          int
		delivered, failed int64
	}{
		{"accepted", []int{204}, 1, 1, 0},
		{"retried", []int{503, 429, 0, 200}, 4, 1, 0},
		{"rejected", []int{403}, 1, 0, 1},
		{"redirected", []int{302}, 1, 0, 1},
		{"given up", []int{500}, 8, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			requests := make(chan struct{}, 20)
			var mu sync.Mutex
			responses := c.responses
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				status := responses[0]
				if len(responses) > 1 {
					responses = responses[1:]
				}
				mu.Unlock()
				requests <- struct{}{}
				if want := webhook.Sign([]byte(secret), r.Header.Get(webhook.TimestampHeader), body); !hmac.Equal([]byte(r.Header.Get(webhook.SignatureHeader)), []byte(want)) {
					t.Errorf("signature %q, want %q", r.Header.Get(webhook.SignatureHeader), want)
				}
				var a webhook.Alert
				if err := json.Unmarshal(body, &a); err != nil || a.Scope != "team" || a.Name != "research" || a.Limit.String() != "20" || a.At.IsZero() {
					t.Errorf("%s: %v", body, err)
				}
				if r.URL.Path != "/open-sesame" || r.URL.RawQuery != "token=7" || r.Header.Get("Content-Type") != "application/json" {
					t.Errorf("%s %v", r.URL, r.Header)
				}
				if status == 0 {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(status)
			}))
			defer server.Close()
			var log bytes.Buffer
			w, err := webhook.New(webhook.Options{
				URL: server.URL + "/open-sesame?token=7", Secret: []byte(secret), Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now, Backoff: time.Millisecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			w.Post(webhook.Alert{Type: webhook.BudgetWarned, Scope: "team", Name: "research", Per: "month", Limit: 20e9})
			for range c.requests {
				select {
				case <-requests:
				case <-time.After(10 * time.Second):
					t.Fatal("timed out waiting for a request")
				}
			}
			var delivered, failed int64
			for deadline := time.Now().Add(10 * time.Second); delivered+failed == 0 && time.Now().Before(deadline); {
				delivered, failed, _ = w.Counts()
			}
			w.Close()
			if delivered != c.delivered || failed != c.failed || len(requests) > 0 {
				t.Errorf("%d delivered, %d failed, %d further requests", delivered, failed, len(requests))
			}
			if text := log.String(); strings.Contains(text, "sesame") || strings.Contains(text, "token") || strings.Contains(text, "alert not delivered") != (c.failed > 0) {
				t.Errorf("log: %s", text)
			}
		})
	}
}

// TestReceiverIsDown checks that alerts neither block nor accumulate without a limit, that the log does not have the
// URL, and that Close does not wait for retries.
func TestReceiverIsDown(t *testing.T) {
	var log bytes.Buffer
	w, err := webhook.New(webhook.Options{URL: "http://127.0.0.1:1/open-sesame", Secret: []byte(secret), Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now, Backoff: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		w.Post(webhook.Alert{Type: webhook.BudgetWarned, Scope: "key", Name: "ci"})
	}
	w.Close()
	if _, failed, dropped := w.Counts(); dropped < 1000-65 || failed > 1 {
		t.Errorf("%d failed, %d dropped", failed, dropped)
	}
	if strings.Contains(log.String(), "sesame") {
		t.Errorf("log: %s", log.String())
	}
	var none *webhook.Webhook
	none.Post(webhook.Alert{})
	none.Close()
}
