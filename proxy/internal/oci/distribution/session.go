package distribution

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

const (
	maxRedirects = 3
	maxToken     = 64 << 10 // of the response of a token service, in bytes
)

// session accesses one repository of a registry. It authorizes itself when the registry asks for it.
type session struct {
	c          *Client
	registry   Registry
	repository string
	push       bool
	base       *url.URL
	client     *upstream.Client
}

// session returns the session for a key, which stays open until the Client is closed.
func (c *Client) session(key sessionKey) (*session, error) {
	if s := c.sessions[key]; s != nil {
		return s, nil
	}
	r := c.registry(key.registry)
	s := &session{c: c, registry: r, repository: key.repository, push: key.push, base: &url.URL{Scheme: "https", Host: r.Name}}
	if r.PlainHTTP {
		s.base.Scheme = "http"
	}
	var err error
	if s.client, err = c.newUpstream(&r, r.Name, r.PlainHTTP, false, credential.Credential{}); err != nil {
		return nil, fmt.Errorf("registry %s: %w", r.Name, err)
	}
	c.sessions[key] = s
	return s, nil
}

// path returns the path of something in the repository.
func (s *session) path(of string) string { return "/v2/" + s.repository + of }

// get returns the content of a path below the repository. It follows redirects.
func (s *session) get(ctx context.Context, path, accept string, limit int) ([]byte, error) {
	r := upstream.Request{Method: http.MethodGet, Path: s.path(path), Accept: accept}
	resp, err := s.do(ctx, func() *upstream.Request { return &r })
	base := s.base
	for range maxRedirects {
		if err != nil || !isRedirect(resp.Status()) {
			break
		}
		location := resp.Location()
		if location == "" {
			break
		}
		resp.Close()
		to, err := parseReceived(&s.registry, base, location)
		if err != nil {
			return nil, err
		}
		if base = to; s.isOwn(to) {
			r.Path = target(to)
			resp, err = s.do(ctx, func() *upstream.Request { return &r })
		} else {
			var other *upstream.Client
			if other, err = s.c.newUpstream(&s.registry, to.Host, to.Scheme == "http", true, credential.Credential{}); err != nil {
				return nil, fmt.Errorf("registry %s: redirect: %w", s.registry.Name, err)
			}
			defer other.Close()
			resp, err = other.Do(ctx, &upstream.Request{Method: http.MethodGet, Path: target(to), Accept: accept}, nil)
		}
		if err != nil {
			return nil, fmt.Errorf("registry %s: redirect: %w", s.registry.Name, err)
		}
	}
	if err != nil {
		return nil, err
	}
	defer resp.Close()
	if resp.Status() != http.StatusOK {
		return nil, s.statusError("GET "+s.path(path), resp.Status())
	}
	return resp.ReadAll(nil, limit)
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// isOwn reports whether a URL is at the registry itself.
func (s *session) isOwn(u *url.URL) bool {
	return u.Scheme == s.base.Scheme && strings.EqualFold(u.Host, s.base.Host)
}

func (s *session) statusError(target string, status int) error {
	return &statusError{registry: s.registry.Name, target: target, status: status, anonymous: s.registry.Username == ""}
}

// do sends a request, and once more after authorizing the session if the registry asks for that.
func (s *session) do(ctx context.Context, request func() *upstream.Request) (*upstream.Response, error) {
	resp, err := s.client.Do(ctx, request(), nil)
	if err != nil || resp.Status() != http.StatusUnauthorized {
		return resp, err
	}
	wanted := string(resp.Header("www-authenticate"))
	resp.Close()
	if err := s.authorize(ctx, wanted); err != nil {
		return nil, err
	}
	return s.client.Do(ctx, request(), nil)
}

// expect sends a request, and returns an error unless the response has a status.
func (s *session) expect(ctx context.Context, status int, request func() *upstream.Request) error {
	resp, err := s.do(ctx, request)
	if err != nil {
		return err
	}
	defer resp.Close()
	if resp.Status() != status {
		r := request()
		path, _, _ := strings.Cut(r.Path, "?")
		return s.statusError(r.Method+" "+path, resp.Status())
	}
	return nil
}

// authorize replaces the session's client with one that is authorized as a WWW-Authenticate header asks for.
func (s *session) authorize(ctx context.Context, header string) error {
	wanted, err := parseChallenge(header)
	if err != nil {
		return fmt.Errorf("registry %s: %w", s.registry.Name, err)
	}
	auth := credential.Credential{Header: "Authorization", Prefix: "Basic "}
	switch {
	case !wanted.basic:
		token, err := s.fetchToken(ctx, wanted)
		if err != nil {
			return err
		}
		auth.Prefix, auth.Secrets = "Bearer ", []string{token}
	case s.registry.Username == "":
		return s.statusError("GET /v2/", http.StatusUnauthorized)
	default:
		auth.Secrets = []string{s.basic()}
	}
	client, err := s.c.newUpstream(&s.registry, s.registry.Name, s.registry.PlainHTTP, false, auth)
	if err != nil {
		return fmt.Errorf("registry %s: %w", s.registry.Name, err)
	}
	s.client.Close()
	s.client = client
	return nil
}

// basic returns the registry's credential for basic authentication.
func (s *session) basic() string {
	return base64.StdEncoding.EncodeToString([]byte(s.registry.Username + ":" + s.registry.Password))
}

// fetchToken gets a token from the registry's token service, as in the distribution project's token specification.
func (s *session) fetchToken(ctx context.Context, wanted challenge) (string, error) {
	u, err := parseReceived(&s.registry, s.base, wanted.realm)
	if err != nil {
		return "", err
	}
	q := u.Query()
	if wanted.service != "" {
		q.Set("service", wanted.service)
	}
	// The scope is the session's, not the one asked for, so that a token is good for this repository only.
	actions := "pull"
	if s.push {
		actions = "pull,push"
	}
	q.Set("scope", "repository:"+s.repository+":"+actions)
	u.RawQuery = q.Encode()
	auth := credential.Credential{}
	if s.registry.Username != "" {
		auth = credential.Credential{Header: "Authorization", Prefix: "Basic ", Secrets: []string{s.basic()}}
	}
	client, err := s.c.newUpstream(&s.registry, u.Host, u.Scheme == "http", !s.isOwn(u), auth)
	if err != nil {
		return "", fmt.Errorf("registry %s: token service: %w", s.registry.Name, err)
	}
	defer client.Close()
	resp, err := client.Do(ctx, &upstream.Request{Method: http.MethodGet, Path: target(u), Accept: "application/json"}, nil)
	if err != nil {
		return "", fmt.Errorf("registry %s: token service: %w", s.registry.Name, err)
	}
	defer resp.Close()
	if resp.Status() != http.StatusOK {
		return "", s.statusError("token service", resp.Status())
	}
	body, err := resp.ReadAll(nil, maxToken)
	if err != nil {
		return "", fmt.Errorf("registry %s: token service: %w", s.registry.Name, err)
	}
	var t struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	// The error of the decoder may quote the token.
	if json.Unmarshal(body, &t) != nil || t.Token == "" && t.AccessToken == "" {
		return "", fmt.Errorf("registry %s: token service: the response contains no token", s.registry.Name)
	}
	if t.Token == "" {
		t.Token = t.AccessToken
	}
	return t.Token, nil
}

// pushBlob uploads a blob in one piece, unless the repository has it.
func (s *session) pushBlob(ctx context.Context, content []byte) error {
	digest := string(oci.DigestOf(content))
	exists, err := s.do(ctx, func() *upstream.Request {
		return &upstream.Request{Method: http.MethodHead, Path: s.path("/blobs/" + digest)}
	})
	if err != nil {
		return err
	}
	exists.Close()
	if exists.Status() == http.StatusOK {
		return nil
	}
	uploads := s.path("/blobs/uploads/")
	begun, err := s.do(ctx, func() *upstream.Request { return &upstream.Request{Method: http.MethodPost, Path: uploads} })
	if err != nil {
		return err
	}
	location, status := begun.Location(), begun.Status()
	begun.Close()
	if status != http.StatusAccepted {
		return s.statusError("POST "+uploads, status)
	}
	to, err := s.base.Parse(location)
	// A registry behind a proxy may name itself with another scheme. The upload stays on this connection's.
	if err != nil || !strings.EqualFold(to.Host, s.base.Host) {
		return fmt.Errorf("registry %s: the registry wants the upload at another host, which is not supported", s.registry.Name)
	}
	q := to.Query()
	q.Set("digest", digest)
	to.RawQuery = q.Encode()
	return s.expect(ctx, http.StatusCreated, func() *upstream.Request {
		return &upstream.Request{Method: http.MethodPut, Path: target(to), ContentType: "application/octet-stream", Body: content}
	})
}
