package config

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

const (
	hour = time.Hour
	day  = 24 * time.Hour

	defaultListen   = "127.0.0.1:8080"
	defaultMaxConns = 16384
	defaultMaxQueue = 16384
	weakSecret      = 16 // bytes; shorter client keys can be guessed
	minReasoningKey = 32 // bytes of server.reasoning_key
)

func (l *loader) server(t table) {
	s := &l.cfg.Server
	s.Listen = defaultListen
	if v, n := t.text("listen"); n != nil {
		if err := CheckListen(v); err != nil {
			t.fail(n, "listen", "%s: %v", show(n), err)
		}
		s.Listen, l.listenAt = v, n.offset
	}
	if l.o.Listen != "" {
		if err := CheckListen(l.o.Listen); err != nil {
			l.d.errs = append(l.d.errs, Error{File: l.d.file, Key: "server.listen", Text: fmt.Sprintf("%q: %v", l.o.Listen, err)})
		}
		s.Listen = l.o.Listen
	}
	// The default depends on the keys; see resolveAuth.
	if t.has("auth") {
		s.Auth = t.choice("auth", AuthKeys, AuthNone)
	} else {
		t.lookUp("auth")
	}
	s.KeyHeaders = keyHeaders(&t)
	s.ReasoningKey = l.reasoningKey(&t)
	s.MaxBody = t.size("max_body", 32<<20, 1<<10, 1<<30)
	s.MaxConns = int(t.integer("max_conns", 0, 1, 1<<20))
	s.Strict = t.bool("strict", false)
	s.MaxWrongKeys = t.integer("max_wrong_keys", 20, 0, maxLimit)
	s.MaxRequests = int(t.integer("max_requests", 0, 1, 1<<20))
	s.MaxBodyMemory = l.bodyMemory(&t)
	s.MaxQueue = int(t.integer("max_queue", defaultMaxQueue, 1, 1<<20))
	s.ReadTimeout = t.duration("read_timeout", 30*time.Second, time.Millisecond, hour)
	s.IdleTimeout = t.duration("idle_timeout", 120*time.Second, time.Millisecond, day)
	s.WriteTimeout = t.duration("write_timeout", 30*time.Second, time.Millisecond, hour)
	s.Heartbeat = t.duration("heartbeat", 15*time.Second, 0, hour)
	s.DrainDelay = t.duration("drain_delay", 0, 0, hour)
	s.ShutdownTimeout = t.duration("shutdown_timeout", 30*time.Second, 0, hour)
	l.cacheDir(&t)
	s.LogFormat = t.choice("log_format", "text", "json")
	s.LogLevel = t.choice("log_level", "info", "debug", "warn", "error")
	access, n := t.text("access_log")
	s.AccessLog = l.relative(n, access)
	l.tls(t.table("tls"))
	t.finish()
}

// keyHeaders reads key_headers.
func keyHeaders(t *table) (names []string) {
	elements, _ := t.strings("key_headers")
	for _, e := range elements {
		name := strings.ToLower(e.text)
		switch {
		case !httpfield.ValidName(name):
			t.fail(e, "key_headers", "%s: is not a valid header name", show(e))
		case slices.Contains(reservedHeaders, name), slices.Contains(names, name):
			t.fail(e, "key_headers", "%s: must not be Authorization, a header of HTTP itself, or listed twice", show(e))
		default:
			names = append(names, name)
		}
	}
	return names
}

// reasoningKey reads reasoning_key.
func (l *loader) reasoningKey(t *table) Secret {
	key, n := l.secretKey(t, "reasoning_key")
	if n != nil && n.text != "" && len(n.text) < minReasoningKey {
		t.fail(n, "reasoning_key", "has %d bytes; at least %d random ones are needed, such as those of `openssl rand -hex 32`", len(n.text), minReasoningKey)
	}
	return key.Secret
}

// DefaultResponsesMemory is the default of Responses.Memory, in bytes.
const DefaultResponsesMemory = 64 << 20

// Responses is the table [responses]: how the gateway stores responses of the Responses API, and what it shows of them.
type Responses struct {
	Memory int64         // bytes for stored responses; 0 stores none. The default is lowered on machines with little memory
	TTL    time.Duration // how long a response is stored

	// ShowReasoning shows the reasoning of models to clients that have not asked for a summary of it.
	ShowReasoning bool

	WebSocket     bool          // clients may use the API over a WebSocket
	WebSocketIdle time.Duration // how long a WebSocket may be without a response in progress
	WebSocketAge  time.Duration // how long a WebSocket accepts requests

	BackgroundPoll   time.Duration // time until a provider is first asked for a response in the background; it doubles up to a minute
	BackgroundExpiry time.Duration // how long a response in the background holds what it may cost; then that is booked
}

func (l *loader) responses(t table) {
	r := &l.cfg.Responses
	r.Memory = t.size("memory", DefaultResponsesMemory, 0, 1<<50)
	r.TTL = t.duration("ttl", hour, time.Second, 30*day)
	r.ShowReasoning = t.bool("show_reasoning", false)
	r.WebSocket = t.bool("websocket", true)
	r.WebSocketIdle = t.duration("websocket_idle", 10*time.Minute, time.Second, day)
	r.WebSocketAge = t.duration("websocket_age", hour, time.Second, day)
	r.BackgroundPoll = t.duration("background_poll", 5*time.Second, 10*time.Millisecond, hour)
	r.BackgroundExpiry = t.duration("background_expiry", day, 10*time.Millisecond, 30*day)
	t.finish()
}

// bodyMemory reads max_body_memory. A limit below max_body would reject the largest bodies even on an idle gateway.
func (l *loader) bodyMemory(t *table) int64 {
	v := t.size("max_body_memory", 0, 1<<10, 1<<50)
	if v != 0 && v < l.cfg.Server.MaxBody {
		t.fail(t.lookUp("max_body_memory"), "max_body_memory", "must be at least max_body, which is %d bytes", l.cfg.Server.MaxBody)
	}
	return v
}

func (l *loader) cacheDir(server *table) {
	dir, n := server.text("cache_dir")
	l.cfg.Server.CacheDir = l.relative(n, dir)
}

// resolveAuth decides whether keys are required. Without keys the gateway accepts every request, which is allowed on a
// loopback address or with auth = "none".
func (l *loader) resolveAuth() {
	s := &l.cfg.Server
	reachable := s.Reachable()
	switch {
	case l.o.Dev && reachable:
		at := l.d.position(l.listenAt)
		if l.o.Listen != "" {
			at = Position{} // the address is not from the file
		}
		l.d.errs = append(l.d.errs, newError(l.d.file, at, "server.listen", fmt.Sprintf(devListen, s.Listen)))
		return
	case s.Auth == "" && l.cfg.authenticates():
		s.Auth = AuthKeys
	case s.Auth == "" && reachable:
		if len(l.d.errs) == 0 {
			at := l.d.position(l.listenAt)
			if l.o.Listen != "" {
				at = Position{} // the address is not from the file
			}
			l.d.errs = append(l.d.errs, newError(l.d.file, at, "server.auth", fmt.Sprintf(
				`%q is reachable from other machines, but no [[keys]] are configured; add a key, or set auth = "none" to allow anyone`, s.Listen)))
		}
	case s.Auth == "":
		s.Auth = AuthNone
	case s.Auth == AuthKeys && !l.cfg.authenticates():
		l.d.fail(l.listenAt, "server.auth", `auth is "keys", but no [[keys]] or [[issuers]] are configured`)
	case s.Auth == AuthNone && l.cfg.authenticates():
		l.d.warn(l.listenAt, "server.auth", `auth is "none": the configured keys are ignored`)
	}
	if s.Auth != AuthKeys || !reachable {
		return
	}
	shipped := sha256.Sum256([]byte(ShippedKey))
	inEnvironment, _ := l.o.Env("SLUICE_KEY")
	for i := range l.cfg.Keys {
		k := &l.cfg.Keys[i]
		e := newError(l.d.file, k.Pos, keyOf("keys", i, "secret"), "")
		switch {
		case slices.Contains(k.AllDigests(), shipped) && !k.Disabled && inEnvironment != ShippedKey:
			e.Text = fmt.Sprintf("%q is the public key of the shipped gateway.toml, and %q is reachable from other machines; set SLUICE_KEY to a key from `sluice keys new`, or to %s to allow it", ShippedKey, s.Listen, ShippedKey)
			l.d.errs = append(l.d.errs, e)
		case k.Secret != "" && len(k.Secret) < weakSecret:
			e.Text = "the secret is short enough to guess, and the gateway is reachable from other machines; `sluice keys new` generates a strong one"
			l.d.warnings = append(l.d.warnings, e)
		}
	}
}

// authenticates reports whether there is anything that a client can authenticate with.
func (c *Config) authenticates() bool { return len(c.Keys) > 0 || c.identifies() }

// identifies reports whether there may be principals: holders of tokens or of client certificates.
func (c *Config) identifies() bool { return len(c.Issuers) > 0 || c.Server.TLS.asksClients() }

// ShippedKey is the client key of the gateway.toml that is shipped with the gateway. It is public.
const ShippedKey = "sk-local"

// devListen is the error for an address that other machines can reach, with Options.Dev.
const devListen = `%q is reachable from other machines, and --dev is for this machine only: listen on an address such as "127.0.0.1:8080"`

// Reachable reports whether the gateway can be reached from other machines.
func (s *Server) Reachable() bool { return !loopback(s.Listen) }

// CheckListen checks an address to listen on. It does not resolve names.
func CheckListen(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return invalid(`want host:port, such as "127.0.0.1:8080" or ":8080"`)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return invalid("the port must be a number from 0 to 65535")
	}
	if host == "" || host == "localhost" {
		return nil
	}
	if _, err := netip.ParseAddr(host); err != nil && !hostName(host) {
		return invalid("the host must be an IP address or a name")
	}
	return nil
}

// loopback reports whether a listen address can be reached from this machine only.
func loopback(listen string) bool {
	host, _, _ := net.SplitHostPort(listen)
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// hostName reports whether s has the form of a DNS name.
func hostName(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	return true
}
