// Package ownership records which client key made which object that a provider stores: a response of the Responses API,
// or a message of a thread. Only that key may refer to it, and a request that does goes back to where the object is.
//
// An object is found by a hash of the key's name and its ID. So an ID that another key has made is as unknown as one
// that nobody has made, and no key can replace the record of another. Neither names nor IDs are kept.
//
// References are what a request refers to: they look it up, and tell which providers may receive the request.
//
// A Store holds up to a million objects for up to 30 days: in memory, in files of the state folder if there is one, and
// in a store that gateways share if there is one.
//
// Concurrency: a Store is safe for concurrent use.
package ownership

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"io"
	"log/slog"
	"sync"
	"time"
)

// The bounds of a Store. When the newest generation is full, the oldest one is dropped.
const (
	TTL        = 30 * 24 * time.Hour // how long an object is known
	MaxObjects = 1_000_000

	generations   = 4
	perGeneration = MaxObjects / generations
)

// Origin is where an object is stored.
type Origin struct {
	Provider uint32 // ProviderID of the provider
	Account  uint64 // credential.Account of the provider's credential
}

// ProviderID identifies a provider by its name.
func ProviderID(name string) uint32 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, name)
	return h.Sum32()
}

// digest identifies an object and the client key that made it.
type digest [16]byte

// digestOf returns the digest of an object. Names of keys contain no line feed.
func digestOf(client, id string) (d digest) {
	sum := sha256.Sum256([]byte(client + "\n" + id))
	copy(d[:], sum[:])
	return d
}

// entry is what is known about an object.
type entry struct {
	account  uint64
	provider uint32
	at       uint32 // time of its creation, in seconds since 1970
}

func (e entry) origin() Origin { return Origin{e.provider, e.account} }

func (e entry) expired(now time.Time) bool { return now.Sub(time.Unix(int64(e.at), 0)) > TTL }

// Shared is a store that several gateways share.
type Shared interface {
	// GetOwned returns the value of a key, or nil if there is none.
	GetOwned(ctx context.Context, key string) ([]byte, error)
	// SetOwned stores a value until ttl has passed.
	SetOwned(ctx context.Context, key string, value []byte, ttl time.Duration) error
}

// Options configure a Store.
type Options struct {
	Dir      func() (string, error) // returns the folder of the files; nil keeps nothing across restarts
	Shared   Shared                 // nil if there is none
	Timeout  time.Duration          // how long a request waits for Shared
	Describe func(err error) string // the text of an error of Shared, without credentials
	Log      *slog.Logger
	Now      func() time.Time
}

// Store is a set of recorded objects. New returns one.
type Store struct {
	o         Options
	per       int // maximum number of objects of a generation
	mu        sync.Mutex
	all       []map[digest]entry // the newest generation is last
	file      *file              // of the newest generation; nil without files
	loaded    bool
	failedAt  time.Time     // when a failure was logged last
	downUntil time.Time     // until then, no request waits for Shared to record an object
	pending   chan struct{} // semaphore of calls of Shared that record objects
}

// New returns an empty store, which does not use its folder until Load.
func New(o Options) *Store {
	return &Store{o: o, per: perGeneration, all: []map[digest]entry{{}}, pending: make(chan struct{}, maxPending)}
}

// Load reads the files, and writes what is recorded from then on to them. It is called once the configuration has a
// provider that may store something; only the first call has an effect. If the files cannot be used, that is logged, and
// nothing survives a restart.
func (s *Store) Load() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded || s.o.Dir == nil {
		return
	}
	s.loaded = true
	dir, err := s.o.Dir()
	if err == nil {
		err = s.load(dir)
	}
	if err != nil {
		s.file = nil
		s.o.Log.Warn("the record of stored responses and threads is not in the state folder: after a restart, clients cannot continue them", "error", err)
	}
}

// Close closes the file. What is recorded afterwards is in no file.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.file
	s.file = nil
	return f.close()
}

// Record records that a client has made an object. It must be called before the client learns the ID, because its next
// request may refer to it, at another gateway too.
func (s *Store) Record(client, id string, o Origin) {
	d, e := digestOf(client, id), entry{o.Account, o.Provider, uint32(s.o.Now().Unix())}
	s.put(d, e)
	if s.o.Shared != nil {
		s.share(d, e)
	}
}

// Lookup returns where an object is that the client has made. It asks the other gateways if this one does not know the
// object. If they cannot be asked, the object is unknown.
func (s *Store) Lookup(ctx context.Context, client, id string) (Origin, bool) {
	d := digestOf(client, id)
	if e, ok := s.get(d); ok {
		return e.origin(), true
	}
	if s.o.Shared == nil {
		return Origin{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	value, err := s.o.Shared.GetOwned(ctx, d.key())
	if err != nil {
		s.logFailure("a stored response or thread cannot be looked up in the store; its continuation is refused", s.o.Describe(err))
		return Origin{}, false
	}
	e, ok := readEntry(value)
	if !ok || e.expired(s.o.Now()) {
		return Origin{}, false
	}
	s.put(d, e) // the next lookup works while the store is down
	return e.origin(), true
}

func (s *Store) get(d digest) (entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.all) - 1; n >= 0; n-- {
		if e, ok := s.all[n][d]; ok {
			return e, !e.expired(s.o.Now())
		}
	}
	return entry{}, false
}

// put adds an object to the newest generation and its file.
func (s *Store) put(d digest, e entry) {
	s.mu.Lock()
	err := s.putLocked(d, e)
	s.mu.Unlock()
	if err != nil {
		s.logFailure("a stored response or thread is not in the state folder; it cannot be continued after a restart", err.Error())
	}
}

func (s *Store) putLocked(d digest, e entry) (err error) {
	newest := s.all[len(s.all)-1]
	if len(newest) >= s.per || s.file != nil && s.file.n >= s.per {
		newest = make(map[digest]entry)
		s.all = append(s.all, newest)
		s.all = s.all[max(0, len(s.all)-generations):]
		if s.file != nil {
			err = s.file.next()
		}
	}
	newest[d] = e
	if s.file != nil {
		err = errors.Join(err, s.file.append(d, e))
	}
	return err
}

const (
	// maxPending bounds the calls of Shared that record objects.
	maxPending = 256
	// pause is how long requests do not wait for Shared after it has failed or been late.
	pause = time.Second
	// callTimeout ends a call of Shared that no request waits for any more.
	callTimeout = 5 * time.Second
)

// share tells the other gateways about an object. It waits no longer than the timeout, and not at all right after a
// failure; the call then continues in the background.
func (s *Store) share(d digest, e entry) {
	const lost = "a stored response or thread is not in the store; other gateways refuse its continuation"
	select {
	case s.pending <- struct{}{}:
	default:
		s.logFailure(lost, "too many calls are pending")
		return
	}
	done := make(chan bool, 1)
	go func() {
		defer func() { <-s.pending }()
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		err := s.o.Shared.SetOwned(ctx, d.key(), e.append(nil), TTL)
		if err != nil {
			s.logFailure(lost, s.o.Describe(err))
		}
		done <- err == nil
	}()
	s.mu.Lock()
	wait := !s.o.Now().Before(s.downUntil)
	s.mu.Unlock()
	if !wait {
		return
	}
	late := time.NewTimer(s.o.Timeout)
	defer late.Stop()
	select {
	case ok := <-done:
		if ok {
			return
		}
	case <-late.C:
	}
	s.mu.Lock()
	s.downUntil = s.o.Now().Add(pause)
	s.mu.Unlock()
}

// key returns the key of an object in Shared.
func (d digest) key() string { return hex.EncodeToString(d[:]) }

// logFailure logs a failure, at most once a minute.
func (s *Store) logFailure(text, reason string) {
	now := s.o.Now()
	s.mu.Lock()
	quiet := !s.failedAt.IsZero() && now.Sub(s.failedAt) < time.Minute
	if !quiet {
		s.failedAt = now
	}
	s.mu.Unlock()
	if !quiet {
		s.o.Log.Warn(text, "error", reason)
	}
}
