package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/fairlru"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

const (
	maxVerdict     = 16 << 10 // bytes of a response
	maxVerdictTime = time.Hour
	maxQuestions   = 64 // in flight; others wait, within the timeout
	verdictMemory  = 16 << 20
)

// Question is what the service of [authorization] learns of a request. It contains no body and no credential.
type Question struct {
	Method    string `json:"method"`
	Path      string `json:"path"`
	Model     string `json:"model,omitempty"`
	Principal string `json:"principal"` // name of the key or principal
}

// Authorizer asks the service of [authorization] about requests that have been authenticated. Create it with
// NewAuthorizer. It is safe for concurrent use.
type Authorizer struct {
	config *config.Authorization
	teams  []config.Team
	client *http.Client
	log    *slog.Logger
	known  *fairlru.Cache[*verdict] // by the digest of the question

	failing atomic.Bool // requests are allowed without a verdict

	mu    sync.Mutex
	asked map[[sha256.Size]byte]*answer // questions in flight
}

// verdict is what the service has said.
type verdict struct {
	allow      bool
	name, team string
	tags       map[string]string
	until      time.Time
}

// answer is a question in flight, which equal ones wait for.
type answer struct {
	done    chan struct{}
	verdict *verdict
	err     error
}

// NewAuthorizer returns an Authorizer for a configuration; nil if it has no [authorization].
func NewAuthorizer(cfg *config.Config, log *slog.Logger, now func() time.Time) *Authorizer {
	if cfg.Authorization.URL == "" {
		return nil
	}
	client := newClient()
	transport := client.Transport.(*http.Transport)
	transport.DisableKeepAlives, transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost, transport.IdleConnTimeout = false, maxQuestions, maxQuestions, time.Minute
	return &Authorizer{
		config: &cfg.Authorization, teams: cfg.Teams, client: client, log: log, asked: make(map[[sha256.Size]byte]*answer),
		known: fairlru.New[*verdict](verdictMemory, maxVerdictTime, now),
	}
}

// Close closes the connections to the service. A nil Authorizer needs no Close.
func (a *Authorizer) Close() {
	if a != nil {
		a.client.CloseIdleConnections()
	}
}

var (
	errDenied  = errors.New("the authorization service denies the request")
	errVerdict = errors.New("the response is not a verdict: want a JSON object with allow, and name, team, tags and ttl if they are needed")
)

// Authorize asks about a request of a key. It returns the key with the team and tags of the verdict, and the name of the
// person that the request is for, "" if the verdict has none. Verdicts that may be kept are found by the digest of the
// whole question.
func (a *Authorizer) Authorize(key *access.Key, q Question, now time.Time) (*access.Key, string, *apierror.Error) {
	text, err := json.Marshal(q)
	if err != nil {
		return nil, "", unauthorized(503, err)
	}
	digest := sha256.Sum256(text)
	v, ok := a.known.Find(digest[:])
	if !ok || !now.Before(v.until) {
		v, err = a.ask(digest, text, key.Name(), now)
	}
	switch {
	case err != nil && a.config.Allow:
		if a.failing.CompareAndSwap(false, true) {
			a.log.Warn("authorization service failed; requests are allowed, as on_failure says", "error", err)
		}
		return key, "", nil
	case err != nil:
		return nil, "", unauthorized(503, err)
	case !v.allow:
		return nil, "", unauthorized(403, errDenied)
	case v.team != "" && !slices.ContainsFunc(a.teams, func(t config.Team) bool { return t.Name == v.team }):
		return nil, "", unauthorized(403, fmt.Errorf("the team that the authorization service names is not one of [[teams]]"))
	}
	return key.With(v.team, v.tags), v.name, nil
}

// unauthorized returns the error for the client.
func unauthorized(status int, cause error) *apierror.Error {
	if status == 403 {
		return &apierror.Error{
			Status: 403, Kind: apierror.KindInvalidRequest, Code: "authorization_denied", NoRetry: true, Cause: cause,
			Message: "The authorization service of this gateway does not allow the request.",
		}
	}
	return &apierror.Error{
		Status: 503, Kind: apierror.KindServiceUnavailable, Code: "authorization_unavailable", RetryAfter: time.Second, Cause: cause,
		Message: "The authorization service of this gateway cannot be reached.",
	}
}

// ask sends a question, unless the same is in flight already, whose verdict it waits for then.
func (a *Authorizer) ask(digest [sha256.Size]byte, text []byte, client string, now time.Time) (*verdict, error) {
	a.mu.Lock()
	if same := a.asked[digest]; same != nil {
		a.mu.Unlock()
		<-same.done // at most the timeout
		return same.verdict, same.err
	}
	if v, ok := a.known.Find(digest[:]); ok && now.Before(v.until) { // it has arrived meanwhile
		a.mu.Unlock()
		return v, nil
	}
	own := &answer{done: make(chan struct{}), err: errVerdict}
	a.asked[digest] = own
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.asked, digest)
		a.mu.Unlock()
		close(own.done)
	}()
	own.verdict, own.err = a.post(text, now)
	if own.err == nil && a.failing.CompareAndSwap(true, false) {
		a.log.Info("authorization service responds again")
	}
	if own.err == nil && own.verdict.until.After(now) {
		v := own.verdict
		size := 256 + len(v.name) + len(v.team)
		for name, value := range v.tags {
			size += 64 + len(name) + len(value)
		}
		a.known.Put(client, []string{string(digest[:])}, v, size, 1, func(*verdict, int) bool { return true })
	}
	return own.verdict, own.err
}

// post asks the service. The errors do not contain its response.
func (a *Authorizer) post(text []byte, now time.Time) (*verdict, error) {
	ctx, cancel := context.WithTimeout(context.Background(), a.config.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.config.URL, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := a.client.Do(r)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return nil, failed.Err // without the URL, whose query may be a credential
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxVerdict+1))
	if err != nil {
		return nil, err
	}
	return parseVerdict(data, now)
}

// parseVerdict parses a verdict. A member that cannot be used makes the whole verdict unusable.
func parseVerdict(data []byte, now time.Time) (*verdict, error) {
	var doc jsondoc.Doc
	if len(data) > maxVerdict || doc.Parse(data, limits) != nil || doc.Root().Kind() != jsondoc.Object {
		return nil, errVerdict
	}
	root, v := doc.Root(), new(verdict)
	switch root.Get("allow").Kind() {
	case jsondoc.True:
		v.allow = true
	case jsondoc.False:
	default:
		return nil, errVerdict
	}
	for name, to := range map[string]*string{"name": &v.name, "team": &v.team} {
		m := root.Get(name)
		if m.Exists() && (m.Kind() != jsondoc.String || !config.PrincipalName(m.Text())) {
			return nil, errVerdict
		}
		if m.Exists() {
			*to = m.Text()
		}
	}
	if tags := root.Get("tags"); tags.Exists() {
		if json.Unmarshal(tags.Raw(), &v.tags) != nil || !config.ValidTags(v.tags) {
			return nil, errVerdict
		}
	}
	if ttl := root.Get("ttl"); ttl.Exists() {
		seconds, ok := ttl.Float()
		if !ok || ttl.Kind() != jsondoc.Number || !(seconds >= 0) {
			return nil, errVerdict
		}
		v.until = now.Add(time.Duration(min(seconds, maxVerdictTime.Seconds()) * float64(time.Second)))
	}
	return v, nil
}
