// Package otlp exports traces, metrics and access log lines to an OpenTelemetry collector, as protobuf over HTTP.
//
// It owns what is exported of a finished request and under which names (names, spans, logs, metrics), which requests
// are traced (Sampler), and delivery: bounded queues, batches, retries, and the state that operators see. It counts what
// it drops. It does not decide what a request's record contains (package telemetry), and it never delays a request: a
// record is copied into a queue, and everything else happens on goroutines of the Exporter, one for each signal.
//
// Concurrency: an Exporter and a Sampler are safe for concurrent use. Close ends the goroutines.
package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// Signal is a kind of exported data.
type Signal uint8

// The signals.
const (
	Traces Signal = iota
	Metrics
	Logs
	signals = iota
)

var signalNames = [signals]string{Traces: "traces", Metrics: "metrics", Logs: "logs"}

// String returns the signal's name, which is also the last segment of its path.
func (s Signal) String() string { return signalNames[s] }

// Options configure an Exporter.
type Options struct {
	Config *config.Telemetry
	Source Source   // identifies the gateway
	Gather Gatherer // returns the metrics; nil exports none
	Log    *slog.Logger
	Now    func() time.Time
	Timing Timing // zero values are defaults
}

// Source identifies the gateway among others.
type Source struct{ Version, Instance string }

// Timing are the times of delivery. Zero means the default given with each.
type Timing struct {
	Batch   time.Duration // how long records are collected; 1 s
	Backoff time.Duration // wait after the first failure, doubled after each further one, up to a minute; 1 s
	GiveUp  time.Duration // age at which a batch that cannot be delivered is dropped; 5 min
	Request time.Duration // maximum time of a request; 10 s
}

func (t Timing) withDefaults() Timing {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&t.Batch, time.Second)
	set(&t.Backoff, time.Second)
	set(&t.GiveUp, 5*time.Minute)
	set(&t.Request, 10*time.Second)
	return t
}

// Exporter exports to one collector. Create it with New.
type Exporter struct {
	o       Options
	client  *upstream.Client
	headers []upstream.Header
	encoder encoder
	sampler *Sampler // nil if no request is traced

	traces, logs queue
	senders      [signals]*sender // nil if the signal is not exported

	stop    chan struct{}
	ctx     context.Context // of requests; ends with the grace of Close
	cancel  context.CancelFunc
	running sync.WaitGroup
	once    sync.Once
}

// maxQueued is how many records wait for their export. When more arrive, the oldest are dropped.
const maxQueued = 2048

// New returns an Exporter whose goroutines are running. It does not connect. The configuration must have a URL.
func New(o Options) (*Exporter, error) {
	o.Timing = o.Timing.withDefaults()
	roots, err := Roots(o.Config.CA)
	if err != nil {
		return nil, fmt.Errorf("telemetry.ca: %w", err)
	}
	c := upstream.Config{
		Name: "collector", BaseURL: o.Config.OTLP, AllowPrivate: true, MaxConns: 8, MaxIdle: 3, TLS: roots,
		Timeouts: upstream.Timeouts{FirstByte: o.Timing.Request, Total: o.Timing.Request},
	}
	e := &Exporter{o: o, encoder: newEncoder(o.Config, o.Source), stop: make(chan struct{})}
	for name, value := range o.Config.Headers {
		if name == "authorization" {
			// The client adds this header, and keeps it out of errors, only as a credential.
			scheme, secret, found := strings.Cut(value.Reveal(), " ")
			if c.Credential = (credential.Credential{Header: name, Prefix: scheme + " ", Secrets: []string{secret}}); !found {
				c.Credential = credential.Credential{Header: name, Secrets: []string{scheme}}
			}
			continue
		}
		e.headers = append(e.headers, upstream.Header{Name: name, Value: value.Reveal()})
	}
	if e.client, err = upstream.New(c); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	start := func(signal Signal, run func(*sender)) *sender {
		s := &sender{e: e, signal: signal}
		e.senders[signal] = s
		e.running.Go(func() { run(s) })
		return s
	}
	if o.Config.Traced() {
		e.traces.init(maxQueued)
		s := start(Traces, func(s *sender) { e.drain(s, &e.traces, e.encoder.traces) })
		e.sampler = newSampler(&o.Config.Traces, &s.dropped[DroppedRate])
	}
	if o.Config.Logs {
		e.logs.init(maxQueued)
		start(Logs, func(s *sender) { e.drain(s, &e.logs, e.encoder.logs) })
	}
	if o.Config.Metrics > 0 && o.Gather != nil {
		start(Metrics, e.sendMetrics)
	}
	return e, nil
}

// Roots returns a TLS configuration that trusts the certificates in a file, nil for "".
func Roots(file string) (*tls.Config, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, errors.New("contains no PEM certificate")
	}
	return &tls.Config{RootCAs: pool}, nil
}

// Record queues a finished request: its trace if it is sampled, which may be decided only now, and its line of the
// access log. It does not block, and copies the record. A nil Exporter does nothing.
func (e *Exporter) Record(r *telemetry.Record) {
	if e == nil {
		return
	}
	e.sampler.Finish(r, r.Ended)
	if e.senders[Metrics] != nil && !r.Shadow {
		e.encoder.operations.observe(r, func(name string) string { return e.encoder.provider(name).system })
	}
	if e.senders[Traces] != nil && r.Span.Sampled {
		e.traces.put(r, &e.senders[Traces].dropped)
	}
	r.Content = nil
	if e.senders[Logs] != nil && !r.Unlogged && !r.Shadow {
		e.logs.put(r, &e.senders[Logs].dropped)
	}
}

// SetProviders sets what spans say about providers. It may be called at any time.
func (e *Exporter) SetProviders(cfg *config.Config) {
	if e != nil {
		e.encoder.setProviders(cfg)
	}
}

// maxBatch is the maximum number of records in one request.
const maxBatch = 256

// drain exports a queue until Close, and then what is left in it.
func (e *Exporter) drain(s *sender, q *queue, encode func([]telemetry.Record) []byte) {
	batch := make([]telemetry.Record, 0, maxBatch)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		stopping := false
		select {
		case <-e.stop:
			stopping = true
		case <-q.wake:
			timer.Reset(e.o.Timing.Batch)
			select {
			case <-timer.C:
			case <-q.full:
			case <-e.stop:
				stopping = true
			}
		}
		for {
			if batch = q.take(batch[:0]); len(batch) == 0 {
				break
			}
			s.deliver(encode(batch), int64(len(batch)))
		}
		if stopping {
			return
		}
	}
}

// sendMetrics exports the metrics at each interval, and once more at the end.
func (e *Exporter) sendMetrics(s *sender) {
	ticks := time.NewTicker(e.o.Config.Metrics)
	defer ticks.Stop()
	began := e.o.Now()
	for stopping := false; !stopping; {
		select {
		case <-e.stop:
			stopping = true
		case <-ticks.C:
		}
		body, points := e.encoder.metrics(e.o.Gather, began, e.o.Now())
		s.deliver(body, points)
	}
}

// Close delivers what is queued, each batch once, within the grace, and ends the goroutines.
func (e *Exporter) Close(grace time.Duration) {
	if e == nil {
		return
	}
	e.once.Do(func() {
		close(e.stop)
		end := time.AfterFunc(grace, e.cancel)
		e.running.Wait()
		end.Stop()
		e.cancel()
		e.client.Close()
	})
}

// Degraded describes the signals that cannot be exported at the moment, one line each.
func (e *Exporter) Degraded() (lines []string) {
	if e == nil {
		return nil
	}
	for _, s := range e.senders {
		if since, err := s.failure(); err != nil {
			lines = append(lines, fmt.Sprintf("telemetry: %s not exported since %s: %v", s.signal, since.UTC().Format(time.RFC3339), err))
		}
	}
	return lines
}

// Stats are the counters of a signal.
type Stats struct {
	Up       bool
	Exported int64 // requests, or points of metrics, that the collector has accepted
	Dropped  [drops]int64
}

// Drop is the reason that something was not exported.
type Drop uint8

// The reasons.
const (
	DroppedBuffer   Drop = iota // the queue was full
	DroppedExpired              // the collector could not be reached for too long
	DroppedRejected             // the collector rejected it
	DroppedRate                 // more traces than per_second
	DroppedContent              // the content of a trace, which is exported without it, because that of others fills the queue
	drops           = iota
)

// DropNames are the names of the reasons in metrics.
var DropNames = [drops]string{DroppedBuffer: "buffer", DroppedExpired: "expired", DroppedRejected: "rejected", DroppedRate: "per_second", DroppedContent: "content"}

// EachStats calls f with the counters of each signal that is exported.
func (e *Exporter) EachStats(f func(Signal, Stats)) {
	if e == nil {
		return
	}
	for _, s := range e.senders {
		if s == nil {
			continue
		}
		_, err := s.failure()
		stats := Stats{Up: err == nil, Exported: s.exported.Load()}
		for i := range stats.Dropped {
			stats.Dropped[i] = s.dropped[i].Load()
		}
		f(s.signal, stats)
	}
}

// maxTries is the maximum number of attempts in a trace.
const maxTries = 64

// maxContent is the maximum number of bytes of content that wait for their export, and so that one request has.
// Collectors accept 20 MiB.
const maxContent = 8 << 20

// queue holds copies of records until they are exported. It overwrites the oldest ones when it is full. put does not
// block, and does not allocate once the memory for attempts has grown.
type queue struct {
	mu    sync.Mutex
	slots []telemetry.Record
	first int
	n     int
	size  int // bytes of the content of the records

	wake chan struct{} // there are records
	full chan struct{} // there is a batch
}

func (q *queue) init(size int) {
	q.slots, q.wake, q.full = make([]telemetry.Record, size), make(chan struct{}, 1), make(chan struct{}, 1)
}

func (q *queue) put(r *telemetry.Record, dropped *[drops]atomic.Int64) {
	q.mu.Lock()
	if q.n == len(q.slots) {
		q.size -= q.slots[q.first].Content.Size()
		q.first = (q.first + 1) % len(q.slots)
		q.n--
		dropped[DroppedBuffer].Add(1)
	}
	at := &q.slots[(q.first+q.n)%len(q.slots)]
	tries, filters := append(at.Tries[:0], r.Tries[:min(len(r.Tries), maxTries)]...), append(at.Filters[:0], r.Filters...)
	route := append(at.Route[:0], r.Route...)
	*at = *r
	at.Tries, at.Filters, at.Route, at.ResponseID = tries, filters, route, nil
	if q.size+r.Content.Size() > maxContent {
		at.Content = nil
		dropped[DroppedContent].Add(1)
	}
	q.size += at.Content.Size()
	q.n++
	n := q.n
	q.mu.Unlock()
	signal := func(c chan struct{}) {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	switch n {
	case 1:
		signal(q.wake)
	case maxBatch:
		signal(q.full)
	}
}

// take moves up to cap(batch) of the oldest records to batch.
func (q *queue) take(batch []telemetry.Record) []telemetry.Record {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.n > 0 && len(batch) < cap(batch) {
		at := &q.slots[q.first]
		n := len(batch)
		batch = batch[:n+1]
		spare := batch[n] // the slot gets the memory of the batch's last record in exchange
		batch[n] = *at
		q.size -= at.Content.Size()
		clear(spare.Tries[:cap(spare.Tries)])
		clear(spare.Filters[:cap(spare.Filters)])
		*at = telemetry.Record{Tries: spare.Tries[:0], Filters: spare.Filters[:0], Route: spare.Route[:0]}
		q.first = (q.first + 1) % len(q.slots)
		q.n--
	}
	return batch
}
