// Package redisstore is the store of limits and budgets that several gateways share, on Redis 6 or later: a server, a Cluster or what
// sentinels watch over.
//
// # What is in Redis
//
// A scope has a tag, one of 16, which is the part of its keys that chooses the node of a Cluster: {PREFIX-TAG}. Of a scope there are a hash
// with the number of the last report of each gateway, and a hash for each counter: the sum of what is granted (taken), the sum of what is
// used, and what each gateway has granted and used, with the end of its lease. One script makes a report of a scope, atomically, by the clock
// of Redis; several reports are one pipeline. All numbers are integers below 2^53. Keys expire an hour after their window and, those of
// rates, after a day without a report; those of budgets without an end do not. Of gateways whose lease is over, at most 256 are remembered
// in each counter: of the others only the sums remain.
//
// # Lost data
//
// Gateways report totals, so that a store which lost its data has them back once all of them have reported. Until then it must not grant what
// it believes to be left. The rule, for each tag:
//
//   - The key of the tag has the run ID of the server that wrote it and a generation. A script that finds the run ID of another process, or
//     none, cannot know whether all has survived: Redis has restarted, with all data, with those of a snapshot or with none, another node took
//     over, or the database was emptied. It begins a generation.
//   - So does one that is told of a later report than it has of the gateway, in the generation that the gateway knows: its key was evicted or
//     deleted.
//   - For spend.Recovery from then on nothing is granted, and replies say Lost.
//   - Each Sync asks for the generations of the tags that it did not ask for within the last half second. If one is new, the replies say Lost,
//     and the gateway reports all that it has. A gateway that reports something each second has done so before the generation grants anything.
//
// So nothing is granted twice to gateways that are alive, also if the first to ask is one that was just started. What a gateway has used that
// does not report any more is lost with the data.
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
	// callTimeout is how long a call is under way at most, whether or not somebody waits for it.
	callTimeout = 3 * time.Second
	// silence is how long a connection may be without a response to a ping before it is closed.
	silence = time.Second

	// maxBatch is how many reports are one pipeline.
	maxBatch = 256
	// maxCalls bounds the calls under way: rueidis waits without a deadline while the ring of a connection is full, which has 256 places.
	maxCalls = 128

	// checkEvery is how often the generation of a tag is asked for.
	checkEvery = 500 * time.Millisecond
)

// Store is a spend.Store for one gateway.
type Store struct {
	option   rueidis.ClientOption
	prefix   string
	recovery time.Duration
	calls    chan struct{}  // has an element for each call under way
	under    sync.WaitGroup // calls and connects under way

	mu      sync.Mutex
	closed  bool
	client  rueidis.Client // nil: not connected
	connect *connecting    // nil: nobody connects
	tags    [tags]tag
	lost    bool // a generation began of which no reply has told yet
}

// connecting is an attempt to connect.
type connecting struct {
	done chan struct{}
	err  error // valid when done is closed
}

// tag is what a gateway knows of a tag.
type tag struct {
	generation int64 // 0: unknown
	asked      time.Time
}

// Open returns a store, and begins to connect to it: Sync and Credit return errors until it is connected. The Store must be closed.
func Open(c *config.Store) (*Store, error) {
	option, err := rueidis.ParseURL(c.URL.Reveal())
	if err != nil {
		return nil, errors.New("store: the URL is invalid") // the error may contain it
	}
	option.ClientName = "sluice"
	option.DisableCache = true // client-side caching
	option.DisableRetry = true
	option.AlwaysPipelining = true // a call that is given up leaves the connection as it is
	option.PipelineMultiplex = -1  // one connection for each server
	option.RingScaleEachConn = 8
	option.ReadBufferEachConn, option.WriteBufferEachConn = 16<<10, 16<<10
	option.Dialer = net.Dialer{Timeout: dialTimeout, KeepAlive: time.Second}
	option.ConnWriteTimeout = silence
	if option.TLSConfig != nil {
		option.TLSConfig.ServerName = "" // that of each server of a Cluster
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

// Close closes the connections, and waits for what is under way. It is called once.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	client := s.client
	s.client = nil
	s.mu.Unlock()
	if client != nil {
		client.Close()
	}
	s.under.Wait()
}

var errClosed = errors.New("store: closed")

// connected returns the client. Where there is none it connects, which may take longer than ctx, and waits for that if it is asked to.
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
		s.under.Go(s.dial)
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

// dial connects, and ends the attempt.
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

// call sends commands in one round trip, and returns their results, each of which may be an error.
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
	s.under.Add(1)
	s.mu.Unlock()
	// A client that has to connect again takes longer than a request can wait, and would begin anew with each of them.
	done := make(chan []rueidis.RedisResult, 1)
	go func() {
		defer s.under.Done()
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

// check drops a client whose server is no longer what it was: the next call looks again for the one to write to.
func (s *Store) check(client rueidis.Client, results []rueidis.RedisResult) {
	for i := range results {
		e, is := rueidis.IsRedisErr(results[i].Error())
		if !is || !strings.HasPrefix(e.Error(), "READONLY") && !strings.HasPrefix(e.Error(), "MOVED") {
			continue
		}
		s.mu.Lock()
		if s.client == client {
			s.client = nil
			s.under.Go(client.Close)
		}
		s.mu.Unlock()
		return
	}
}
