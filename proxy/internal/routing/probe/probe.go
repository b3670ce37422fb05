// Package probe measures providers: at an interval it reads metrics that a provider reports about itself, such as the
// length of its queue, for routers.
//
// It owns the requests for them and the parser of their text format. The values are kept in routing.Measurements.
//
// Concurrency: each Prober has one goroutine, between Start and Close, which makes one request at a time.
package probe

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

const (
	// maxBody is the maximum size of a response. A vLLM server with ten models has less than 200 KiB of metrics.
	maxBody = 4 << 20

	// keptFor is how many intervals a value is valid, so that a single failure does not change the routing.
	keptFor = 3

	minTimeout, maxTimeout = time.Second, 10 * time.Second
)

// Config configures a Prober.
type Config struct {
	Path  string // from the root of the host
	Every time.Duration
	Read  []string // names of metrics

	Client *upstream.Client
	Failed func(error) // called when a probe fails after one that has not, and with nil when one succeeds again
}

// Prober measures one provider.
type Prober struct {
	cfg    Config
	values routing.Measurements
	stop   context.CancelFunc
	done   chan struct{}
}

// New returns a Prober that has not been started.
func New(cfg Config) *Prober { return &Prober{cfg: cfg} }

// Values returns the provider's measurements.
func (p *Prober) Values() *routing.Measurements { return &p.values }

// Inherit takes over what another Prober of the same host has measured, unless they read different metrics.
func (p *Prober) Inherit(old *Prober) {
	if slices.Equal(p.cfg.Read, old.cfg.Read) {
		p.values.Inherit(&old.values)
	}
}

// Start begins to measure, at once and then at each interval. It is called at most once.
func (p *Prober) Start() {
	ctx, stop := context.WithCancel(context.Background())
	p.stop, p.done = stop, make(chan struct{})
	go p.run(ctx)
}

// Close ends the measuring and waits until it has ended. Values that were measured stay available until they expire.
func (p *Prober) Close() {
	if p.stop != nil {
		p.stop()
		<-p.done
	}
}

func (p *Prober) run(ctx context.Context) {
	defer close(p.done)
	ticks := time.NewTicker(p.cfg.Every)
	defer ticks.Stop()
	failing := false
	for {
		err := p.measure(ctx)
		if ctx.Err() != nil {
			return
		}
		if failing != (err != nil) {
			failing = err != nil
			p.cfg.Failed(err)
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// measure makes one request and stores what it measures.
func (p *Prober) measure(ctx context.Context) (err error) {
	defer rescue.Into(&err)
	ctx, cancel := context.WithTimeout(ctx, min(max(p.cfg.Every, minTimeout), maxTimeout))
	defer cancel()
	request := &upstream.Request{Method: "GET", Path: p.cfg.Path, FromRoot: true, Accept: "text/plain;version=0.0.4", Once: true}
	response, err := p.cfg.Client.Do(ctx, request, watcher{ctx})
	if err != nil {
		return err
	}
	defer response.Close()
	if response.Status() != 200 {
		return fmt.Errorf("GET %s returned status %d", p.cfg.Path, response.Status())
	}
	body, err := response.ReadAll(nil, maxBody)
	if err != nil {
		return err
	}
	values := parse(body, p.cfg.Read)
	p.values.Store(values, time.Now().Add(keptFor*p.cfg.Every))
	if len(values) < len(p.cfg.Read) {
		return fmt.Errorf("GET %s has no value of %s", p.cfg.Path, missing(p.cfg.Read, values))
	}
	return nil
}

// missing returns the first name that has no value.
func missing(names []string, values []routing.Measurement) string {
	for i, name := range names {
		if i == len(values) || values[i].Name != name {
			return name
		}
	}
	return ""
}

// watcher ends waiting for the provider when its context is done.
type watcher struct{ ctx context.Context }

func (w watcher) Tick(upstream.Phase, time.Duration) error { return w.ctx.Err() }
