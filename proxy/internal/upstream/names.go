package upstream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

const (
	// namesFresh is how long resolved addresses are cached, and namesFailed how long a failure is. The TTL is unknown
	// because Go's resolver does not return it.
	namesFresh  = 30 * time.Second
	namesFailed = 5 * time.Second

	// namesStale is how long old addresses are used while queries fail, and namesWait how long a connection waits for
	// new addresses if there are old ones.
	namesStale = 10 * time.Minute
	namesWait  = time.Second

	// namesTimeout bounds a query. It is longer than the timeout for connecting, so that the second name server is
	// queried if the first is silent, and the next connection benefits even if this one has timed out.
	namesTimeout = 15 * time.Second
)

// names resolves and caches the addresses of one host. At most one query is in flight, on its own goroutine, so that a
// caller that is canceled does not cancel it for others. It is safe for concurrent use.
type names struct {
	host    string
	resolve func(ctx context.Context, network, host string) ([]netip.Addr, error)
	now     func() time.Time

	ctx    context.Context // context of the queries; close cancels it
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	addrs  []netip.Addr  // last resolved; immutable
	found  time.Time     // when addrs were resolved
	err    error         // error of the last query; nil if it succeeded
	failed time.Time     // when that query failed
	query  chan struct{} // closed when the query in flight ends; nil if there is none
}

func newNames(host string, r *net.Resolver, now func() time.Time) *names {
	if r == nil {
		r = net.DefaultResolver
	}
	n := &names{host: host, resolve: r.LookupNetIP, now: now}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// nameError says that a host could not be resolved.
type nameError struct{ err error }

func (e *nameError) Error() string { return e.err.Error() }
func (e *nameError) Unwrap() error { return e.err }

// lookup returns the addresses of the host, at least one. Its errors are *nameErrors, even if ctx ends first.
func (n *names) lookup(ctx context.Context) ([]netip.Addr, error) {
	n.mu.Lock()
	if n.ctx.Err() != nil {
		n.mu.Unlock()
		return nil, &nameError{net.ErrClosed}
	}
	now := n.now()
	old := n.addrs
	if now.Sub(n.found) >= namesStale {
		old = nil
	}
	switch {
	case old != nil && now.Sub(n.found) < namesFresh:
		n.mu.Unlock()
		return old, nil
	case n.err != nil && now.Sub(n.failed) < namesFailed:
		err := n.err
		n.mu.Unlock()
		if old != nil {
			return old, nil
		}
		return nil, err
	case n.query == nil:
		n.query = make(chan struct{})
		n.wg.Go(n.runQuery)
	}
	query := n.query
	n.mu.Unlock()

	if old != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, namesWait)
		defer cancel()
	}
	select {
	case <-query:
	case <-ctx.Done():
		if old != nil {
			return old, nil
		}
		return nil, &nameError{&net.DNSError{Err: "timed out", Name: n.host, IsTimeout: true}}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil || n.addrs != nil && old != nil {
		return n.addrs, nil
	}
	return nil, n.err
}

// callResolver calls the resolver, and turns a panic into an error.
func (n *names) callResolver(ctx context.Context) (addrs []netip.Addr, err error) {
	defer rescue.Into(&err)
	return n.resolve(ctx, "ip", n.host)
}

// runQuery resolves the host and wakes the callers that wait for it.
func (n *names) runQuery() {
	ctx, cancel := context.WithTimeout(n.ctx, namesTimeout)
	addrs, err := n.callResolver(ctx)
	cancel()
	for i, a := range addrs {
		addrs[i] = a.Unmap()
	}
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no address", Name: n.host, IsNotFound: true}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		n.addrs, n.found, n.err = addrs, n.now(), nil
	} else {
		n.err, n.failed = &nameError{err}, n.now()
		if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
			// A definite negative response: old addresses are no longer valid.
			n.addrs = nil
		}
	}
	close(n.query)
	n.query = nil
}

// close cancels the query in flight and waits until it has ended.
func (n *names) close() {
	n.mu.Lock()
	n.cancel() // no query starts after this
	n.mu.Unlock()
	n.wg.Wait()
}
