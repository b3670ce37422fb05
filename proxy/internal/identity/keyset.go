package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

const (
	fetchTimeout = 5 * time.Second  // for fetching keys, with discovery
	maxWait      = 3 * time.Second  // for which a token waits for a fetch
	fetchPause   = 30 * time.Second // least time between two fetches from an issuer
	leastAge     = 5 * time.Minute  // least and most time for which keys are used before they are fetched again
	mostAge      = 24 * time.Hour
	defaultAge   = time.Hour // without max-age

	// unknownTime is how long a key is taken to be unknown after a fetch has not found it; then a token that names it may
	// cause a fetch again.
	unknownTime = time.Minute
	maxUnknown  = 1024
)

// source is where the keys of an issuer come from, with those that were fetched last.
type source struct {
	d      *Directory
	id     sourceID
	name   string // of the issuer that was first to use it, for logs and the file's name
	users  int    // verifiers that use it; guarded by the mutex of the Directory
	set    atomic.Pointer[keySet]
	ctx    context.Context // of fetches
	cancel context.CancelFunc

	mu       sync.Mutex
	closed   bool
	fetching chan struct{}                     // closed when the fetch in progress ends; nil if there is none
	tried    time.Time                         // when the last fetch began
	err      error                             // of the last fetch
	timer    *time.Timer                       // starts the next fetch
	failures int                               // in a row
	unknown  *simplelru.LRU[string, time.Time] // keys that the last fetches did not find
}

// keySet is the keys of an issuer.
type keySet struct {
	keys    []publicKey
	fetched time.Time // zero for those of a file of the configuration, which are not fetched
}

// stale reports whether the keys were fetched too long ago to be used.
func (s *keySet) stale(limit time.Duration, now time.Time) bool {
	return !s.fetched.IsZero() && now.Sub(s.fetched) >= limit
}

var (
	errUnavailable = errors.New("the issuer's keys cannot be fetched")
	errUnknownKey  = errors.New("the issuer has no such key")
	errNoKeyID     = errors.New("kid is missing, and the issuer has several keys for the algorithm")
	errKeyMethod   = errors.New("the algorithm is not that of the issuer's key")
)

// readFile returns the keys in a file of the configuration.
func (d *Directory) readFile(c *config.Issuer) (*source, error) {
	f, err := os.Open(c.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxKeySet+1))
	if err != nil {
		return nil, err
	}
	keys, err := parseKeySet(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.File, err)
	}
	s := &source{d: d, name: c.Name, users: 1, cancel: func() {}}
	s.set.Store(&keySet{keys: keys})
	return s, nil
}

// find returns the issuer's key with an ID that serves a method. If the ID is unknown, or the keys are stale, it waits for
// a fetch, which it starts unless the last one was less than fetchPause ago.
func (s *source) find(id, method string, stale time.Duration, now time.Time) (*publicKey, error) {
	set := s.set.Load()
	current := set != nil && !set.stale(stale, now)
	if current {
		if key, err := set.find(id, method); err != errUnknownKey || set.fetched.IsZero() {
			return key, err
		}
	}
	if err := s.refresh(id, current, now); err != nil {
		return nil, err
	}
	if set = s.set.Load(); set == nil || set.stale(stale, now) {
		return nil, errUnavailable
	}
	key, err := set.find(id, method)
	if err == errUnknownKey {
		s.recordUnknown(id, now)
	}
	return key, err
}

// find returns the key with an ID that serves a method.
func (s *keySet) find(id, method string) (*publicKey, error) {
	var found *publicKey
	named := false
	for i := range s.keys {
		k := &s.keys[i]
		if id != "" && k.id != id {
			continue
		}
		named = true
		switch {
		case k.method(method) == nil:
		case id != "":
			return k, nil
		case found != nil:
			return nil, errNoKeyID
		default:
			found = k
		}
	}
	switch {
	case found != nil:
		return found, nil
	case named && id != "":
		return nil, errKeyMethod
	}
	return nil, errUnknownKey
}

// refresh waits until the keys have been fetched, because the one with this ID is unknown. It returns errUnknownKey if
// that was fetched recently, and errUnavailable if the issuer cannot be reached. current reports that there are keys.
func (s *source) refresh(id string, current bool, now time.Time) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errUnavailable
	}
	if at, known := s.lookUpUnknown(id); known && current && now.Sub(at) < unknownTime {
		s.mu.Unlock()
		return errUnknownKey
	}
	if s.fetching == nil && now.Sub(s.tried) < fetchPause {
		defer s.mu.Unlock()
		if s.err != nil || !current {
			return errUnavailable
		}
		return errUnknownKey
	}
	s.startFetch(now)
	fetching := s.fetching
	s.mu.Unlock()
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case <-fetching:
	case <-timer.C:
		return errUnavailable
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return errUnavailable
	}
	return nil
}

func (s *source) lookUpUnknown(id string) (time.Time, bool) {
	if s.unknown == nil {
		return time.Time{}, false
	}
	return s.unknown.Get(id)
}

// recordUnknown records that a fetch has not found a key.
func (s *source) recordUnknown(id string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unknown == nil {
		s.unknown, _ = simplelru.NewLRU[string, time.Time](maxUnknown, nil) // fails only if the size is not positive
	}
	s.unknown.Add(id, now)
}

// startFetch starts a fetch unless one is in progress. The caller holds mu.
func (s *source) startFetch(now time.Time) {
	if s.fetching != nil || s.closed {
		return
	}
	s.tried, s.fetching = now, make(chan struct{})
	if s.timer != nil {
		s.timer.Stop()
	}
	s.d.fetches.Go(s.fetch)
}

// fetch fetches the keys, and schedules the next fetch.
func (s *source) fetch() {
	ctx, cancel := context.WithTimeout(s.ctx, fetchTimeout)
	data, age, err := s.d.fetchKeys(ctx, s.id)
	cancel()
	var keys []publicKey
	if err == nil {
		keys, err = parseKeySet(data)
	}
	if err == nil {
		now := s.d.o.Now()
		s.set.Store(&keySet{keys, now})
		s.save(data, now)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.err
	s.err = err
	if err == nil {
		s.failures, s.unknown = 0, nil
	} else {
		s.failures++
		// The first failures may be a restart of the issuer.
		age = min(fetchPause<<min(s.failures-1, 4), leastAge)
	}
	close(s.fetching)
	s.fetching = nil
	if s.closed {
		return
	}
	s.timer = time.AfterFunc(age+rand.N(age/10), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.startFetch(s.d.o.Now())
	})
	switch {
	case err != nil && was == nil:
		s.d.o.Log.Error("keys of an issuer cannot be fetched; its tokens are checked with earlier keys, if there are any", "issuer", s.name, "error", err)
	case err == nil && was != nil:
		s.d.o.Log.Info("keys of an issuer can be fetched again", "issuer", s.name)
	}
}

// close stops fetching. A fetch in progress ends soon.
func (s *source) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.cancel()
}

// newClient returns the client that fetches keys. Like the connections to providers, it ignores proxy settings. It
// follows no redirects, because their target would decide who may sign tokens.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: fetchTimeout}).DialContext, TLSHandshakeTimeout: fetchTimeout,
			ResponseHeaderTimeout: fetchTimeout, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fetchKeys returns the key set of an issuer, and how long it may be used. Without the URL of its keys, discovery finds
// that.
func (d *Directory) fetchKeys(ctx context.Context, id sourceID) (data []byte, age time.Duration, err error) {
	from := id.jwks
	if from == "" {
		if from, err = d.discover(ctx, id.url); err != nil {
			return nil, 0, err
		}
	}
	data, header, err := d.get(ctx, from)
	return data, maxAge(header), err
}

// discover returns the URL of an issuer's keys (OpenID Connect Discovery 1.0).
func (d *Directory) discover(ctx context.Context, issuer string) (string, error) {
	data, _, err := d.get(ctx, strings.TrimRight(issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return "", err
	}
	var doc jsondoc.Doc
	if doc.Parse(data, limits) != nil || doc.Root().Kind() != jsondoc.Object {
		return "", errors.New("discovery: not a JSON object, or with duplicate members")
	}
	if v := doc.Root().Get("issuer"); v.Kind() != jsondoc.String || !v.Is(issuer) {
		return "", errors.New("discovery: the member issuer is not the issuer's url")
	}
	v := doc.Root().Get("jwks_uri")
	if v.Kind() != jsondoc.String {
		return "", errors.New("discovery: jwks_uri is missing")
	}
	u, err := url.Parse(v.Text())
	from, _ := url.Parse(issuer)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != from.Scheme {
		return "", errors.New("discovery: jwks_uri is not an https URL")
	}
	return v.Text(), nil
}

// get returns the body of a 200.
func (d *Directory) get(ctx context.Context, from string) ([]byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Accept", "application/json")
	resp, err := d.client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s: status %d", from, resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxKeySet+1))
	if err == nil && len(data) > maxKeySet {
		err = fmt.Errorf("%s: the response has more than %d bytes", from, maxKeySet)
	}
	return data, resp.Header, err
}

// maxAge returns how long a response may be used, within bounds.
func maxAge(h http.Header) time.Duration {
	age := defaultAge
	for _, value := range h.Values("Cache-Control") {
		for directive := range strings.SplitSeq(value, ",") {
			name, text, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
			switch name {
			case "no-store", "no-cache":
				return leastAge
			case "max-age":
				seconds, err := strconv.ParseUint(strings.Trim(text, `"`), 10, 31)
				if err != nil {
					return leastAge
				}
				age = time.Duration(seconds) * time.Second
			}
		}
	}
	return min(max(age, leastAge), mostAge)
}

// saved is the file with the keys of an issuer.
type saved struct {
	URL     string          `json:"url"`
	JWKS    string          `json:"jwks,omitempty"`
	Fetched int64           `json:"fetched"` // seconds since 1970
	Keys    json.RawMessage `json:"keys"`    // the key set
}

// load reads the keys that an earlier process has saved. They are only a start: a fetch follows.
func (s *source) load() {
	if s.d.o.Dir == nil {
		return
	}
	dir, err := s.d.o.Dir()
	if err != nil {
		s.d.o.Log.Warn("no folder for the keys of issuers: the gateway cannot start while an issuer is down", "error", err)
		return
	}
	data, err := os.ReadFile(filepath.Join(dir, s.name+".json"))
	var f saved
	if err != nil || json.Unmarshal(data, &f) != nil || (sourceID{f.URL, f.JWKS}) != s.id {
		return
	}
	// A time in the future would make the keys last longer than they should.
	fetched := earlier(time.Unix(f.Fetched, 0), s.d.o.Now())
	if keys, err := parseKeySet(f.Keys); err == nil {
		s.set.Store(&keySet{keys, fetched})
	}
}

// save saves the keys for the next process.
func (s *source) save(data []byte, now time.Time) {
	if s.d.o.Dir == nil {
		return
	}
	dir, err := s.d.o.Dir()
	if err != nil {
		return // load has logged it
	}
	text, err := json.Marshal(saved{s.id.url, s.id.jwks, now.Unix(), data})
	if err == nil {
		err = writeFile(dir, s.name+".json", text)
	}
	if err != nil {
		s.d.o.Log.Warn("keys of an issuer cannot be saved", "issuer", s.name, "error", err)
	}
}

// writeFile writes a file as a whole, so that a crash leaves the old or the new one.
func writeFile(dir, name string, data []byte) error {
	f, err := os.CreateTemp(dir, name+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
