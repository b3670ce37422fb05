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
	// namesFresh is how long the addresses of a name are used, and namesFailed how long a failure to find any is: the
	// resolver does not tell what the name server said about that.
	namesFresh  = 30 * time.Second
	namesFailed = 5 * time.Second

	// namesStale is how long old addresses serve in the place of new ones that cannot be had, and namesPatience how long
	// a connection waits for new ones where there are old ones.
	namesStale    = 10 * time.Minute
	namesPatience = time.Second

	// namesTimeout bounds a query. It is longer than a connection may take, so that the second name server gets its turn
	// where the first is silent, if not for this connection then for the next.
	namesTimeout = 15 * time.Second
)

// names knows the addresses of one host. However many connections need them, one query is under way at a time, on a
// goroutine of its own: nobody who gives up takes it away from the others. It is safe for concurrent use.
type names struct {
	host    string
	resolve func(ctx context.Context, network, host string) ([]netip.Addr, error)
	now     func() time.Time

	ctx    context.Context // of the queries; ends with close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	addrs  []netip.Addr  // the last that were found; not changed once they are here
	found  time.Time     // when they were
	err    error         // why there are none, where the last query found none
	failed time.Time     // when it ended
	query  chan struct{} // closed when the query under way ends; nil: there is none
}

func newNames(host string, r *net.Resolver, now func() time.Time) *names {
	if r == nil {
		r = net.DefaultResolver
	}
	n := &names{host: host, resolve: r.LookupNetIP, now: now}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// nameError says that a host has no address, as far as could be found out.
type nameError struct{ err error }

func (e *nameError) Error() string { return e.err.Error() }
func (e *nameError) Unwrap() error { return e.err }

// lookup returns the addresses of the host, at least one. Where ctx ends first the error is a *nameError, too.
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
		n.wg.Go(n.ask)
	}
	query := n.query
	n.mu.Unlock()

	if old != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, namesPatience)
		defer cancel()
	}
	select {
	case <-query:
	case <-ctx.Done():
		if old != nil {
			return old, nil
		}
		return nil, &nameError{&net.DNSError{Err: "no answer in time", Name: n.host, IsTimeout: true}}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil || n.addrs != nil && old != nil {
		return n.addrs, nil
	}
	return nil, n.err
}

// lookUp asks the resolver.
func (n *names) lookUp(ctx context.Context) (addrs []netip.Addr, err error) {
	defer rescue.Into(&err)
	return n.resolve(ctx, "ip", n.host)
}

// ask asks the name server, and tells everybody who waits for it.
func (n *names) ask() {
	ctx, cancel := context.WithTimeout(n.ctx, namesTimeout)
	addrs, err := n.lookUp(ctx)
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
			// The name server knows that there is none: that is no failure to be bridged.
			n.addrs = nil
		}
	}
	close(n.query)
	n.query = nil
}

// close gives up the query under way and waits for its end.
func (n *names) close() {
	n.mu.Lock()
	n.cancel() // from here on nobody begins another one
	n.mu.Unlock()
	n.wg.Wait()
}
