package credential_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// clock is a clock set by tests.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func newSet(t *testing.T, c *clock, r *credential.Redactor, secrets ...string) *credential.Set {
	t.Helper()
	s, err := credential.Credential{Header: "x-api-key", Secrets: secrets}.Prepare(c.Now, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// use sends a request to a provider that responds to each secret with the given status, or with 200 if there is none.
// It returns the secrets used, in order.
func use(s *credential.Set, client uint64, retryAfter time.Duration, statuses map[string]int) (used []string) {
	c := s.Choose(client)
	for {
		secret := c.Addition().Header.Value
		used = append(used, secret)
		status := statuses[secret]
		if status == 0 {
			status = 200
		}
		if !c.Next(status, func() time.Duration { return retryAfter }) {
			return used
		}
	}
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("used %v, want %v", got, want)
	}
}

// client returns a client that prefers a secret.
func client(t *testing.T, s *credential.Set, secret string) uint64 {
	t.Helper()
	for h := uint64(1); h < 1000; h++ {
		if c := s.Choose(h); c.Addition().Header.Value == secret {
			return h
		}
	}
	t.Fatalf("no client prefers %s", secret)
	return 0
}

func TestClientsAreSpread(t *testing.T) {
	c := &clock{time.Unix(1e9, 0)}
	three, four := newSet(t, c, nil, "a", "b", "c"), newSet(t, c, nil, "a", "b", "c", "d")
	counts, moved := map[string]int{}, 0
	const clients = 6000
	for i := range clients {
		h := uint64(i) * 0x9E3779B97F4A7C15
		first, second := three.Choose(h), three.Choose(h)
		if first.Addition() != second.Addition() {
			t.Fatal("a client got two different secrets")
		}
		counts[first.Addition().Header.Value]++
		more := four.Choose(h)
		if v := more.Addition().Header.Value; v != first.Addition().Header.Value {
			if moved++; v != "d" {
				t.Fatal("a client moved to a secret other than the new one")
			}
		}
	}
	for secret, n := range counts {
		if n < clients/4 || n > clients/2 {
			t.Errorf("%d of %d clients use secret %s, want about a third", n, clients, secret)
		}
	}
	if moved < clients/6 || moved > clients/3 {
		t.Errorf("%d of %d clients moved to the new secret, want about a quarter", moved, clients)
	}
}

func TestNextSecretDuringPause(t *testing.T) {
	for _, tt := range []struct {
		status     int
		retryAfter time.Duration
		pause      time.Duration // 0 means that the secret is not paused
	}{
		{429, 0, 5 * time.Second},
		{429, time.Hour, time.Hour},
		{401, time.Hour, time.Minute},
		{402, 0, time.Minute},
		{403, 0, 0},
	} {
		t.Run(fmt.Sprint(tt.status, tt.retryAfter), func(t *testing.T) {
			c := &clock{time.Unix(1e9, 0)}
			s := newSet(t, c, nil, "a", "b")
			h := client(t, s, "a")
			bad := map[string]int{"a": tt.status}
			want(t, use(s, h, tt.retryAfter, bad), "a", "b")
			if tt.pause == 0 {
				want(t, use(s, h, tt.retryAfter, bad), "a", "b")
				return
			}
			want(t, use(s, h, tt.retryAfter, bad), "b")
			c.now = c.now.Add(tt.pause - 1)
			want(t, use(s, h, tt.retryAfter, bad), "b")
			c.now = c.now.Add(1)
			want(t, use(s, h, tt.retryAfter, nil), "a")
		})
	}
	t.Run("all secrets paused", func(t *testing.T) {
		s := newSet(t, &clock{time.Unix(1e9, 0)}, nil, "a", "b", "c")
		h := client(t, s, "b")
		bad := map[string]int{"a": 429, "b": 429, "c": 429}
		if used := use(s, h, time.Minute, bad); len(used) != 3 || used[0] != "b" {
			t.Errorf("used %v, want all three, b first", used)
		}
		want(t, use(s, h, time.Minute, bad), "b")
	})
	for _, status := range []int{200, 400, 404, 408, 500, 503} {
		want(t, use(newSet(t, &clock{}, nil, "a"), 1, 0, map[string]int{"a": status}), "a")
	}
	want(t, use(newSet(t, &clock{}, nil, "a"), 1, 0, map[string]int{"a": 429}), "a")
	want(t, use(newSet(t, &clock{}, nil), 1, 0, map[string]int{"": 401}), "")
}

func TestReplacedSecretIsTriedOnce(t *testing.T) {
	c := &clock{time.Unix(1e9, 0)}
	r := credential.NewRedactor()
	s := newSet(t, c, r, "old-12345")
	early := s.Choose(0)
	if changed, err := s.Renew([]string{"old-12345"}); changed || err != nil {
		t.Error(changed, err)
	}
	if changed, err := s.Renew([]string{"new-12345"}); !changed || err != nil {
		t.Error(changed, err)
	}
	if early.Addition().Header.Value != "old-12345" {
		t.Error("the secret of a request in flight changed")
	}
	if !early.Next(401, nil) || early.Addition().Header.Value != "new-12345" {
		t.Error("a request whose secret was rejected after the renewal must be resent with the new secret")
	}
	want(t, use(s, 0, 0, nil), "new-12345")
	want(t, use(s, 0, 0, map[string]int{"new-12345": 401}), "new-12345", "old-12345")
	want(t, use(s, 0, 0, map[string]int{"new-12345": 401, "old-12345": 401}), "new-12345", "old-12345")
	want(t, use(s, 0, 0, map[string]int{"new-12345": 429}), "new-12345")
	if got := string(r.Redact([]byte("old-12345 new-12345"))); got != "[redacted] [redacted]" {
		t.Errorf("Redact returned %s", got)
	}
	for _, bad := range [][]string{{""}, {"a\nb"}, {"a", "b"}, {}} {
		if changed, err := s.Renew(bad); changed || err == nil {
			t.Errorf("Renew(%q) succeeded, want an error", bad)
		}
	}
	want(t, use(s, 0, 0, nil), "new-12345")
}

func TestInherit(t *testing.T) {
	c := &clock{time.Unix(1e9, 0)}
	old := newSet(t, c, nil, "a", "b")
	h := client(t, old, "a")
	use(old, h, time.Hour, map[string]int{"a": 429})

	same := newSet(t, c, nil, "a", "b")
	same.Inherit(old)
	want(t, use(same, h, 0, nil), "b") // a is still paused

	replaced := newSet(t, c, nil, "a", "c")
	replaced.Inherit(old)
	want(t, use(replaced, h, 0, map[string]int{"c": 401}), "c", "b")
	again := newSet(t, c, nil, "a", "c")
	again.Inherit(replaced)
	want(t, use(again, client(t, again, "c"), 0, map[string]int{"c": 401}), "c", "b")

	elsewhere, err := credential.Credential{Query: "key", Secrets: []string{"c"}}.Prepare(c.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere.Inherit(old)
	if n := elsewhere.Choose(0); n.Next(401, nil) {
		t.Error("inherited a secret that was sent in a header for use in the query")
	}
}

// TestAccountOfEarlierRequest checks which secret a request uses that refers to what an earlier request has made, and
// that it uses no other one.
func TestAccountOfEarlierRequest(t *testing.T) {
	clock := &clock{time.Unix(2_000_000_000, 0)}
	old := newSet(t, clock, nil, "a", "b", "c")
	made := map[string]credential.Account{}
	for _, secret := range []string{"a", "b", "c"} {
		c := old.Choose(client(t, old, secret))
		made[secret] = c.Account()
	}
	for _, c := range []struct {
		by      string
		secrets []string
		want    string
	}{
		{"b", []string{"a", "b", "c"}, "b"},
		{"b", []string{"b", "c", "a"}, "b"}, // the same secret
		{"b", []string{"a", "d", "c"}, "d"}, // it was replaced
		{"a", []string{"d"}, "d"},
	} {
		s := newSet(t, clock, nil, c.secrets...)
		for h := range uint64(20) {
			choice := s.ChooseAccount(made[c.by], h)
			if got := choice.Addition().Header.Value; got != c.want {
				t.Errorf("made by %s: %s of %v, want %s", c.by, got, c.secrets, c.want)
			}
			for _, status := range []int{401, 402, 403, 429} {
				if choice.Next(status, func() time.Duration { return 0 }) {
					t.Errorf("made by %s: another secret is tried after a %d", c.by, status)
				}
			}
		}
	}
	s := newSet(t, clock, nil, "d", "e")
	for h := range uint64(20) { // the account is gone
		choice, free := s.ChooseAccount(made["c"], h), s.Choose(h)
		if choice.Addition() != free.Addition() {
			t.Errorf("client %d: %v, want %v", h, choice.Addition(), free.Addition())
		}
	}
	if _, err := s.Renew([]string{"f", "e"}); err != nil {
		t.Fatal(err)
	}
	choice := s.ChooseAccount(made["a"], 1)
	if got := choice.Addition().Header.Value; got != "f" || !choice.Next(401, nil) || choice.Addition().Header.Value != "d" || choice.Next(401, nil) {
		t.Errorf("%s, then %s: want f, then the secret that it replaced, then none", got, choice.Addition().Header.Value)
	}
}
