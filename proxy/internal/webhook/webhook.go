// Package webhook posts alerts about budgets to a URL, as signed JSON.
//
// It owns the alert's format, its signature, and delivery: a bounded queue, and retries for a bounded time. It does not
// decide when a budget is nearly spent (package spend). The URL is a credential, since those of chat systems contain
// one: it is in no error and no log line.
//
// Concurrency: a Webhook is safe for concurrent use. Close ends its goroutine.
package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// Alert is the body of a request.
type Alert struct {
	Type  string    `json:"type"`      // BudgetWarned
	Scope string    `json:"scope"`     // key, team, model or provider
	Name  string    `json:"name"`      // of the key, team, model or provider
	Per   string    `json:"per"`       // the budget's period
	Limit cost.Nano `json:"limit_usd"` // the budget's limit
	At    time.Time `json:"at"`
}

// BudgetWarned is the type of the alert that a budget has reached its warn.
const BudgetWarned = "budget_warned"

// The headers of a request. The signature is "v1=" and the hexadecimal HMAC-SHA256 of the timestamp, a full stop and the
// body.
const (
	TimestampHeader = "X-Sluice-Timestamp" // Unix seconds
	SignatureHeader = "X-Sluice-Signature"
)

// Options configure a Webhook.
type Options struct {
	URL     string
	TLS     *tls.Config // nil for the system's certificates
	Secret  []byte      // signs alerts
	Log     *slog.Logger
	Now     func() time.Time
	Backoff time.Duration // wait after the first failure, doubled after each further one; 0 means 1 s
}

const (
	maxQueued   = 64 // alerts that wait
	maxAttempts = 8  // for one alert: about four minutes
	timeout     = 10 * time.Second
	maxResponse = 4 << 10
)

// Webhook posts alerts. Create it with New; a nil Webhook posts nothing.
type Webhook struct {
	o      Options
	client *upstream.Client
	path   string
	queue  chan Alert
	stop   chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	once   sync.Once

	delivered, failed, dropped atomic.Int64
}

// New returns a Webhook whose goroutine is running. It does not connect. Errors do not contain the URL.
func New(o Options) (*Webhook, error) {
	if o.Backoff <= 0 {
		o.Backoff = time.Second
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, errors.New("the URL is not valid")
	}
	w := &Webhook{o: o, path: u.RequestURI(), queue: make(chan Alert, maxQueued), stop: make(chan struct{})}
	w.client, err = upstream.New(upstream.Config{
		Name: "alerts", BaseURL: u.Scheme + "://" + u.Host, AllowPrivate: true, MaxConns: 1, MaxIdle: 1, TLS: o.TLS,
		Timeouts: upstream.Timeouts{FirstByte: timeout, Total: timeout},
	})
	if err != nil {
		return nil, err
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.done.Go(w.run)
	return w, nil
}

// Post queues an alert. It does not block: if too many wait, the alert is dropped and counted.
func (w *Webhook) Post(a Alert) {
	if w == nil {
		return
	}
	a.At = w.o.Now().UTC().Truncate(time.Millisecond)
	select {
	case w.queue <- a:
	default:
		w.dropped.Add(1)
	}
}

// Counts returns how many alerts were delivered, given up after their retries or a rejection, and dropped because too
// many were waiting.
func (w *Webhook) Counts() (delivered, failed, dropped int64) {
	return w.delivered.Load(), w.failed.Load(), w.dropped.Load()
}

// Close cancels a delivery in progress, and ends the goroutine.
func (w *Webhook) Close() {
	if w == nil {
		return
	}
	w.once.Do(func() {
		close(w.stop)
		w.cancel()
		w.done.Wait()
		w.client.Close()
	})
}

func (w *Webhook) run() {
	for w.ctx.Err() == nil {
		select {
		case <-w.stop:
		case a := <-w.queue:
			if err := w.deliver(a); err != nil {
				w.failed.Add(1)
				w.o.Log.Error("alert not delivered", "type", a.Type, a.Scope, a.Name, "per", a.Per, "error", err)
				continue
			}
			w.delivered.Add(1)
		}
	}
}

// deliver posts an alert until the receiver accepts it, rejects it, or has failed too often.
func (w *Webhook) deliver(a Alert) error {
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	for attempt, wait := 1, w.o.Backoff; ; attempt, wait = attempt+1, 2*wait {
		retryAfter, final, err := w.post(body)
		if err == nil || final || attempt == maxAttempts {
			return err
		}
		t := time.NewTimer(max(wait, min(retryAfter, time.Minute)))
		select {
		case <-t.C:
		case <-w.stop:
			t.Stop()
			return err
		}
	}
}

// post makes one request. final reports that it must not be repeated.
func (w *Webhook) post(body []byte) (retryAfter time.Duration, final bool, err error) {
	timestamp := strconv.FormatInt(w.o.Now().Unix(), 10)
	r, err := w.client.Do(w.ctx, &upstream.Request{
		Method: http.MethodPost, Path: w.path, Body: body, ContentType: "application/json", Once: true,
		Headers: []upstream.Header{{Name: TimestampHeader, Value: timestamp}, {Name: SignatureHeader, Value: Sign(w.o.Secret, timestamp, body)}},
	}, nil)
	if err != nil {
		if e, ok := errors.AsType[*upstream.Error](err); ok {
			e.Target = "" // the path may contain a credential
			final = e.Kind == upstream.BadRequest
		}
		return 0, final, err
	}
	defer r.Close()
	status := r.Status()
	retryAfter = r.RetryAfter(w.o.Now())
	_, _ = r.ReadAll(nil, maxResponse) // so that the connection can be used again
	if status >= 200 && status < 300 {
		return 0, true, nil
	}
	return retryAfter, status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout, fmt.Errorf("the receiver responded with status %d", status)
}

// Sign returns the value of SignatureHeader.
func Sign(secret []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}
