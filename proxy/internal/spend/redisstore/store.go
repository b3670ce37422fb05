// Package redisstore implements spend.Store on Redis 6 or later: a single server, a Cluster, or servers monitored by
// Sentinel.
//
// # Data in Redis
//
// Scopes are hashed to 16 tags. The tag is part of their keys, as the hash tag {PREFIX-TAG} that selects the node of a
// Cluster. Each scope has a hash with the number of each gateway's last report, and a hash for each counter. The hash
// of a counter has the sum of all grants (taken), the sum of all usage, and for each gateway its grant, its usage and
// the end of its lease. A script applies the report of a scope atomically, by the clock of Redis. Several reports are
// sent as one pipeline. All numbers are integers below 2^53. The keys of windows expire an hour after the window, and
// those of rates after a day without a report. Keys of budgets that never end do not expire. Each counter stores at
// most 256 gateways whose lease has expired; the others remain only in the sums.
//
// # Lost data
//
// Gateways report totals, so a store that has lost its data regains it once all of them have reported. Until then it
// must not grant anything, because what seems to be left may not be. For each tag, the rules are:
//   - The key of the tag contains a generation and the run ID of the server that wrote it. If the script finds a
//     different run ID, or none, it cannot know whether all data has survived: Redis has restarted with all of its
//     data, with a snapshot or with nothing, another node has taken over, or the database was flushed. The script then
//     starts a new generation.
//   - It also starts a new generation if a gateway that knows the current one has received a reply to a later report
//     than the last one that the script has recorded, because then a key was evicted or deleted.
//   - For the duration of spend.Recovery after that, nothing is granted, and replies set Lost.
//   - Each Sync also asks for the generation of every tag that it has not asked for in the last half second. If one has
//     changed, the replies set Lost, and the gateway reports everything that it has. A gateway that reports something
//     every second has therefore reported everything before the new generation grants anything.
//
// So nothing that a live gateway has is granted a second time, even if the first to ask has just started. The usage of
// gateways that no longer report is lost with the data.
//
// Concurrency: a Store is safe for concurrent use.
package redisstore

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

const (
	dialTimeout = 2 * time.Second
	// callTimeout is the timeout of a call, which continues in the background if its caller gives up earlier.
	callTimeout = 3 * time.Second
	// silence is how long a ping may go unanswered before the connection is closed.
	silence = time.Second

	// maxBatch is the maximum number of reports in a pipeline.
	maxBatch = 256
	// maxCalls bounds the calls in flight, because rueidis waits without a deadline while the ring of a connection,
	// which has 256 slots, is full.
	maxCalls = 128

	// checkEvery is the interval at which the generation of a tag is checked.
	checkEvery = 500 * time.Millisecond
)

// Store is a spend.Store for one gateway.
type Store struct {
	option   rueidis.ClientOption
	prefix   string
	recovery time.Duration
	calls    chan struct{}  // semaphore of calls in flight
	inflight sync.WaitGroup // calls and connection attempts in flight

	mu      sync.Mutex
	closed  bool
	client  rueidis.Client // nil while not connected
	connect *connecting    // connection attempt in progress; nil if there is none
	tags    [tags]tag
	lost    bool // a new generation was found, and no reply has set Lost for it yet
}

// connecting is a connection attempt.
type connecting struct {
	done chan struct{}
	err  error // valid when done is closed
}

// tag is what the gateway knows about a tag.
type tag struct {
	generation int64     // 0 if unknown
	asked      time.Time // when the generation was last asked for
}

// Open returns a store and starts to connect to it. Until it is connected, Sync and Credit return errors. The caller
// must close the Store.
func Open(c *config.Store) (*Store, error) {
	option, err := rueidis.ParseURL(c.URL.Reveal())
	if err != nil {
		return nil, errors.New("store: the URL is invalid") // the error may contain the URL with its password
	}
	option.ClientName = "sluice"
	option.DisableCache = true // no client-side caching
	option.DisableRetry = true
	option.AlwaysPipelining = true // abandoning a call does not affect the connection
	option.PipelineMultiplex = -1  // one connection for each server
	option.RingScaleEachConn = 8
	option.ReadBufferEachConn, option.WriteBufferEachConn = 16<<10, 16<<10
	option.Dialer = net.Dialer{Timeout: dialTimeout, KeepAlive: time.Second}
	option.ConnWriteTimeout = silence
	if option.TLSConfig != nil {
		option.TLSConfig.ServerName = "" // use the name of each server of a Cluster
		if c.CA != "" {
			pem, err := os.ReadFile(c.CA)
			if err != nil {
				return nil, fmt.Errorf("store: %w", err)
			}
			option.TLSConfig.RootCAs = x509.NewCertPool()
			if !option.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("store: %s has no certificate", c.CA)
			}
		}
	}
	option.Sentinel.Dialer, option.Sentinel.TLSConfig, option.Sentinel.ClientName = option.Dialer, option.TLSConfig, option.ClientName
	s := &Store{option: option, prefix: c.Prefix, recovery: spend.Recovery, calls: make(chan struct{}, maxCalls)}
	s.connected(context.Background(), false)
	return s, nil
}

// Close closes the connections and waits for calls in flight. It must be called only once.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	client := s.client
	s.client = nil
	s.mu.Unlock()
	if client != nil {
		client.Close()
	}
	s.inflight.Wait()
}

var errClosed = errors.New("store: closed")

// connected returns the client. If there is none, it starts to connect, which continues after ctx is done. With wait,
// it waits for the connection; otherwise it returns nil.
func (s *Store) connected(ctx context.Context, wait bool) (rueidis.Client, error) {
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, errClosed
	case s.client != nil:
		defer s.mu.Unlock()
		return s.client, nil
	case s.connect == nil:
		s.connect = &connecting{done: make(chan struct{})}
		s.inflight.Go(s.dial)
	}
	c := s.connect
	s.mu.Unlock()
	if !wait {
		return nil, nil
	}
	select {
	case <-c.done:
		if c.err != nil {
			return nil, c.err
		}
		return s.connected(ctx, wait)
	case <-ctx.Done():
		return nil, fmt.Errorf("store: connect: %w", ctx.Err())
	}
}

// dial connects, and completes the connection attempt.
func (s *Store) dial() {
	client, err := rueidis.NewClient(s.option)
	s.mu.Lock()
	c := s.connect
	s.connect = nil
	switch {
	case err != nil:
		c.err = fmt.Errorf("store: connect: %w", err)
	case s.closed:
		c.err = errClosed
		defer client.Close()
	default:
		s.client = client
	}
	s.mu.Unlock()
	close(c.done)
}

// call sends commands in one round trip and returns their results, each of which may be an error.
func (s *Store) call(ctx context.Context, build func(rueidis.Builder) rueidis.Commands) ([]rueidis.RedisResult, error) {
	client, err := s.connected(ctx, true)
	if err != nil {
		return nil, err
	}
	select {
	case s.calls <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("store: %w", ctx.Err())
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.calls
		return nil, errClosed
	}
	s.inflight.Add(1)
	s.mu.Unlock()
	// The call continues after ctx is done: reconnecting takes longer than a request can wait, and would start over
	// with each request.
	done := make(chan []rueidis.RedisResult, 1)
	go func() {
		defer s.inflight.Done()
		defer func() { <-s.calls }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		done <- client.DoMulti(ctx, build(client.B())...)
	}()
	select {
	case results := <-done:
		s.check(client, results)
		return results, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("store: %w", ctx.Err())
	}
}

// check drops the client if a server is no longer the one to write to. The next call then connects again and finds the
// right one.
func (s *Store) check(client rueidis.Client, results []rueidis.RedisResult) {
	for i := range results {
		e, is := rueidis.IsRedisErr(results[i].Error())
		if !is || !strings.HasPrefix(e.Error(), "READONLY") && !strings.HasPrefix(e.Error(), "MOVED") {
			continue
		}
		s.mu.Lock()
		if s.client == client {
			s.client = nil
			s.inflight.Go(client.Close)
		}
		s.mu.Unlock()
		return
	}
}
