package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/proxytest/ocitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gateway is a Host without a gateway. What requests cost and whether they fail depends on the bundle's text.
type gateway struct {
	serving string
	text    string
	figures Figures
	uses    []string // texts in the order in which they were used
	err     error    // of Use, if it is set
}

func (g *gateway) Use(_ context.Context, b *config.BundleText) error {
	if g.err != nil {
		return g.err
	}
	if strings.HasPrefix(string(b.Content), "broken") {
		return errors.New("bundle.toml:1:1: broken")
	}
	g.serving, g.text = b.Digest, string(b.Content)
	g.uses = append(g.uses, g.text)
	return nil
}

func (g *gateway) Serving() string  { return g.serving }
func (g *gateway) Figures() Figures { return g.figures }

// serve serves requests with the bundle in use.
func (g *gateway) serve(requests int64) {
	g.figures.Requests += requests
	g.figures.FirstEvents += requests
	g.figures.FirstSeconds += 0.1 * float64(requests)
	g.figures.Cost += 0.001 * float64(requests)
	switch strings.TrimSpace(g.text) {
	case "fails":
		g.figures.Errors += requests
	case "traps":
		g.figures.Traps += requests
	case "expensive":
		g.figures.Cost += 0.009 * float64(requests)
	case "slow":
		g.figures.FirstSeconds += 3 * float64(requests)
	}
}

// world is a registry, a publisher and a clock.
type world struct {
	t         *testing.T
	registry  *ocitest.Registry
	source    string
	key       SecretKey
	publisher *Publisher
	now       time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, registry: ocitest.New(t, ocitest.Anonymous), key: newKey(t), now: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)}
	w.source = "oci://" + w.registry.Name() + "/acme/fleet:prod"
	w.publisher = NewPublisher(new(config.Config), w.key.Public())
	t.Cleanup(w.publisher.Close)
	return w
}

// push pushes a bundle and returns its digest.
func (w *world) push(text string) string {
	w.t.Helper()
	pinned, err := w.publisher.PushBundle(w.t.Context(), strings.Replace(w.source, ":prod", ":"+text, 1), []byte(text), w.key)
	if err != nil {
		w.t.Fatal(err)
	}
	_, digest, _ := strings.Cut(pinned, "@")
	return digest
}

// rollout publishes a rollout.
func (w *world) rollout(next string, stages ...string) {
	w.t.Helper()
	r := &Rollout{Created: w.now, Expires: w.now.Add(24 * time.Hour), Next: next}
	for _, text := range stages {
		s, err := ParseStage(text)
		if err != nil {
			w.t.Fatal(err)
		}
		r.Stages = append(r.Stages, s)
	}
	if err := w.publisher.PushRollout(w.t.Context(), w.source, r, w.key); err != nil {
		w.t.Fatal(err)
	}
}

// node is a node with its gateway.
type node struct {
	*Node
	gateway *gateway
}

// config returns the configuration of a node.
func (w *world) config(name string, tags ...string) *config.Config {
	source, err := oci.ParseReference(w.source)
	if err != nil {
		w.t.Fatal(err)
	}
	return &config.Config{Bundle: &config.Bundle{
		Source: source, Keys: []string{w.key.Public().String()}, Every: time.Minute, Name: name, Tags: tags, Trial: 5 * time.Minute, MinRequests: 20,
		MaxErrors: 0.05, MaxRatio: 3,
	}}
}

// open starts a node in a folder.
func (w *world) open(dir string, c *config.Config) (*node, error) {
	n, err := Open(w.t.Context(), Options{Dir: dir, Config: c, Now: func() time.Time { return w.now }})
	if err != nil {
		return nil, err
	}
	n.puller.Retry(0)
	g := &gateway{}
	if err := g.Use(w.t.Context(), n.Bundle()); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(n.puller.Close)
	return &node{n, g}, nil
}

func (w *world) start(dir string, c *config.Config) *node {
	w.t.Helper()
	n, err := w.open(dir, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// run passes time, a minute at a time, in each of which a node polls and has some requests.
func (w *world) run(minutes int, requests int64, nodes ...*node) {
	for range minutes {
		for _, n := range nodes {
			n.Poll(w.t.Context())
			n.Step(w.t.Context(), n.gateway)
			n.gateway.serve(requests)
			n.Step(w.t.Context(), n.gateway)
		}
		w.now = w.now.Add(time.Minute)
	}
}

// alarms returns the alarms of a node as a text.
func (n *node) alarms() string { return strings.Join(n.Status().Alarms, "; ") }

func TestRollout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.open(t.TempDir(), w.config("a")); err == nil || !strings.Contains(err.Error(), "this node has no bundle yet, and cannot get one") {
		t.Fatalf("without a rollout: error %v", err)
	}
	one, two := w.push("one"), w.push("two")
	w.rollout(one, "100%")
	canary, other := w.start(t.TempDir(), w.config("a", "canary")), w.start(t.TempDir(), w.config("b"))
	w.run(2, 10, canary, other)
	if s := canary.Status(); s.Bundle != one || s.Good != one || s.Trial || s.Sequence != 1 || len(s.Alarms) > 0 || s.Polled.IsZero() {
		t.Errorf("after the start: %+v", s)
	}
	w.rollout(two, "tag:canary", "100%+30m")
	w.run(1, 10, canary, other)
	if s := canary.Status(); s.Bundle != two || !s.Trial || s.Good != one || canary.gateway.text != "two" {
		t.Errorf("on trial: %+v", s)
	}
	w.run(9, 1, canary, other)
	if s := canary.Status(); !s.Trial {
		t.Errorf("the trial ended with too few requests: %+v", s)
	}
	w.run(1, 10, canary, other)
	if s := canary.Status(); s.Trial || s.Good != two || s.Bundle != two {
		t.Errorf("after the trial: %+v", s)
	}
	if s := other.Status(); s.Bundle != one {
		t.Errorf("the other node, before its stage: %+v", s)
	}
	w.run(20, 10, canary, other)
	w.run(10, 10, canary, other)
	if s := other.Status(); s.Bundle != two || s.Good != two || s.Trial {
		t.Errorf("the other node, after its stage: %+v", s)
	}
	w.rollout(one)
	r, err := w.publisher.ReadRollout(t.Context(), w.source)
	if err != nil || r.Current != two || r.Sequence != 3 {
		t.Errorf("rollout %+v, error %v: want the bundle of all as the current one", r, err)
	}
}

// TestRollback rolls out bundles that are worse, each in another way, and one that cannot be loaded.
func TestRollback(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"fails":     "requests failed: 25 in 25 requests, before 0 in 50",
		"traps":     "plugins trapped: 25 in 25 requests, before 0 in 50",
		"expensive": "a request costs $0.010000, before $0.001000",
		"slow":      "the first event comes after 3.10 s, before after 0.10 s",
		"broken":    "it cannot be loaded: bundle.toml:1:1: broken",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			one, bad := w.push("one"), w.push(text)
			w.rollout(one, "100%")
			dir := t.TempDir()
			n := w.start(dir, w.config("a", "canary"))
			w.run(2, 25, n)
			w.rollout(bad, "tag:canary")
			w.run(3, 25, n)
			if s := n.Status(); s.Bundle != one || s.Good != one || s.Trial || s.Refused[bad] != want || n.gateway.text != "one" || !strings.Contains(n.alarms(), "is refused: "+want) {
				t.Errorf("got %+v, want it refused: %s", s, want)
			}
			uses := len(n.gateway.uses)
			w.run(30, 25, n)
			if len(n.gateway.uses) != uses {
				t.Errorf("it was tried again: %q", n.gateway.uses)
			}
			// Also after a restart.
			n = w.start(dir, w.config("a", "canary"))
			w.run(3, 25, n)
			if len(n.gateway.uses) != 1 || n.Status().Refused[bad] == "" {
				t.Errorf("after a restart: %q, %+v", n.gateway.uses, n.Status())
			}
			// The next one is taken.
			w.rollout(w.push("two"), "tag:canary")
			w.run(10, 25, n)
			if n.gateway.text != "two" || n.alarms() != "" {
				t.Errorf("the next bundle: %q, alarms %s", n.gateway.uses, n.alarms())
			}
		})
	}
}

// TestWithdrawn takes a bundle back while it is on trial. It is not refused.
func TestWithdrawn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.push("one"), w.push("two")
	w.rollout(one, "100%")
	n := w.start(t.TempDir(), w.config("a"))
	w.run(1, 1, n)
	w.rollout(two, "100%")
	w.run(1, 1, n)
	w.rollout(one, "100%")
	w.run(2, 1, n)
	if s := n.Status(); s.Bundle != one || s.Trial || len(s.Refused) > 0 || len(s.Alarms) > 0 {
		t.Errorf("got %+v", s)
	}
}

// TestOffline restarts a node without a registry, with its clock a day off, and with a damaged bundle on disk.
func TestOffline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.push("one"), w.push("two")
	w.rollout(one, "100%")
	dir, c := t.TempDir(), w.config("a")
	n := w.start(dir, c)
	w.run(1, 20, n)
	w.rollout(two, "100%+1m") // with the clock set back, this stage is not open
	w.run(9, 20, n)
	if n.Status().Good != two {
		t.Fatalf("got %+v", n.Status())
	}
	n.Close()
	w.registry.Stop()
	for _, off := range []time.Duration{0, -24 * time.Hour, 48 * time.Hour} {
		w.now = w.now.Add(off)
		n = w.start(dir, c)
		w.run(1, 1, n)
		if n.gateway.text != "two" || !strings.Contains(n.alarms(), "refused") {
			t.Errorf("clock %v off: %q, alarms %s", off, n.gateway.text, n.alarms())
		}
	}
	if !strings.Contains(n.alarms(), "the rollout expired") {
		t.Errorf("alarms %s: want that the rollout expired", n.alarms())
	}
	stored, err := Stored(t.Context(), Options{Dir: dir, Config: c})
	if err != nil || string(stored.Content) != "two" {
		t.Errorf("stored %+v, error %v", stored, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && string(data) == "two" {
			if err := os.WriteFile(file, []byte("twx"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n = w.start(dir, c); n.gateway.text != "one" {
		t.Errorf("with a damaged bundle: %q, want the one before", n.gateway.text)
	}
}

// TestCrashes ends the process at each write of the state, which is lost or not, and starts again: the node has the old
// bundle or the new one, and gets to the new one in the end. A bundle that ends the process is refused.
func TestCrashes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.push("one"), w.push("two")
	w.rollout(one, "100%")
	first := t.TempDir()
	n := w.start(first, w.config("a"))
	w.run(1, 20, n)
	w.rollout(two, "100%")
	w.now = w.now.Add(time.Hour)
	for writes := range 8 {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.CopyFS(dir, os.DirFS(first)); err != nil {
			t.Fatal(err)
		}
		n := w.start(dir, w.config("a"))
		left := writes
		n.written = func() error {
			if left--; left < 0 {
				return errors.New("no space left on device")
			}
			return nil
		}
		w.run(8, 20, n) // without Close: the process is killed
		n = w.start(dir, w.config("a"))
		if s := n.Status(); s.Bundle != one && s.Bundle != two {
			t.Errorf("after %d writes: %+v", writes, s)
		}
		w.run(8, 20, n)
		if s := n.Status(); s.Good != two || s.Trial || len(s.Alarms) > 0 {
			t.Errorf("after %d writes, in the end: %+v", writes, s)
		}
	}
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.CopyFS(dir, os.DirFS(first)); err != nil {
		t.Fatal(err)
	}
	for range maxStarts {
		n = w.start(dir, w.config("a"))
		w.run(1, 1, n)
		if n.gateway.text != "two" {
			t.Fatalf("not tried: %q", n.gateway.uses)
		}
	}
	n = w.start(dir, w.config("a"))
	w.run(1, 1, n)
	if s := n.Status(); n.gateway.text != "one" || !strings.Contains(s.Refused[two], "the process ended in each of its trials") {
		t.Errorf("after %d crashes: %q, %+v", maxStarts, n.gateway.uses, s)
	}
}

// TestDiskFull changes nothing while the state cannot be stored.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.push("one")
	w.rollout(one, "100%")
	dir := t.TempDir()
	n := w.start(dir, w.config("a"))
	w.run(1, 20, n)
	full := errors.New("no space left on device")
	n.written = func() error { return full }
	w.rollout(w.push("two"), "100%")
	w.run(8, 20, n)
	if s := n.Status(); s.Bundle != one || s.Sequence != 1 || !strings.Contains(n.alarms(), "no space left") {
		t.Errorf("got %+v", s)
	}
	n.written = nil
	blobs := filepath.Join(dir, "blobs")
	if err := errors.Join(os.RemoveAll(blobs), os.WriteFile(blobs, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	w.run(8, 20, n)
	if s := n.Status(); s.Bundle != one || s.Sequence != 1 || n.alarms() == "" {
		t.Errorf("without a folder for bundles: %+v", s)
	}
	if err := os.Remove(blobs); err != nil {
		t.Fatal(err)
	}
	w.run(8, 20, n)
	if n.gateway.text != "two" || n.alarms() != "" {
		t.Errorf("with space again: %q, alarms %s", n.gateway.text, n.alarms())
	}
}

// TestNotNow tries a bundle again if another reload was in progress, and returns to the bundle in use if a reload has
// replaced it.
func TestNotNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.push("one")
	w.rollout(one, "100%")
	n := w.start(t.TempDir(), w.config("a"))
	w.run(1, 20, n)
	w.rollout(w.push("two"), "100%")
	n.gateway.err = fmt.Errorf("reload: %w", ErrNotNow)
	w.run(5, 20, n)
	if s := n.Status(); s.Bundle != one || len(s.Refused) > 0 {
		t.Errorf("got %+v", s)
	}
	n.gateway.err = nil
	w.run(8, 20, n)
	n.gateway.serving, n.gateway.text = one, "one"
	w.run(1, 20, n)
	if n.gateway.text != "two" || n.alarms() != "" {
		t.Errorf("got %q, alarms %s", n.gateway.uses, n.alarms())
	}
}

// TestAttacks publishes what an attacker can, with the registry in his hands but not the key. The node serves on.
func TestAttacks(t *testing.T) {
	t.Parallel()
	rogue := newKey(t)
	for name, tt := range map[string]struct {
		attack func(w *world, two string)
		want   string
	}{
		"another key": {func(w *world, two string) { w.signed(rogue, 9, w.source, two) }, "signed with a key that is not in bundle.keys"},
		"another key with the same ID": {func(w *world, two string) {
			k := rogue
			k.public.id = w.key.public.id
			w.signed(k, 9, w.source, two)
		}, "the signature is not valid for the content"},
		"an old rollout":  {func(w *world, two string) { w.signed(w.key, 1, w.source, two) }, "its sequence 1 is not above 2"},
		"the same number": {func(w *world, two string) { w.signed(w.key, 2, w.source, two) }, "its sequence 2 is not above 2"},
		"another scope":   {func(w *world, two string) { w.signed(w.key, 9, strings.Replace(w.source, "prod", "test", 1), two) }, "the rollout is for"},
		"another kind": {func(w *world, two string) {
			w.registry.PutManifest("acme/fleet", "prod", w.registry.Manifest("acme/fleet", two))
		}, "is not a rollout.json"},
		"not a rollout": {func(w *world, _ string) { w.registry.PutPlugin("acme/fleet", "prod", "application/wasm", []byte("x")) }, "is not a rollout.json"},
		"no manifest":   {func(w *world, _ string) { w.registry.PutManifest("acme/fleet", "prod", []byte("{")) }, "the manifest is not valid"},
		"a huge rollout": {func(w *world, two string) {
			w.sign(w.key, []byte(`{"kind":"`+strings.Repeat("x", 300<<10)+`"}`))
		}, "more than 262144"},
		"an endless manifest": {func(w *world, _ string) {
			w.registry.Intercept(func(rw http.ResponseWriter, q *http.Request) bool {
				if !strings.Contains(q.URL.Path, "/manifests/") {
					return false
				}
				junk := make([]byte, 64<<10)
				for range (oci.MaxManifest + 1<<20) / len(junk) {
					if _, err := rw.Write(junk); err != nil {
						break
					}
				}
				return true
			})
		}, "response too large"},
		"an unknown restriction": {func(w *world, two string) {
			w.sign(w.key, []byte(`{"kind":"sluice.rollout.v1","scope":"`+w.source+`","sequence":9,"created":"2026-01-01T00:00:00Z","expires":"2027-01-01T00:00:00Z","next":"`+two+`","stages":[{"percent":100,"unless":"x"}]}`))
		}, "unknown field"},
		"a bundle of another key": {func(w *world, _ string) {
			r, _ := oci.ParseReference(w.source)
			r.Tag = "evil"
			digest, err := bundles.push(w.t.Context(), w.publisher.client, r, []byte("two"), rogue)
			if err != nil {
				w.t.Fatal(err)
			}
			w.signed(w.key, 9, w.source, string(digest))
		}, "signed with a key that is not in bundle.keys"},
		"a swapped blob": {func(w *world, two string) {
			w.registry.Intercept(func(rw http.ResponseWriter, q *http.Request) bool {
				if strings.HasSuffix(q.URL.Path, string(oci.DigestOf([]byte("two")))) {
					_, _ = rw.Write([]byte("twx"))
					return true
				}
				return false
			})
			w.signed(w.key, 9, w.source, two)
		}, "the content has the digest"},
		"a redirect to metadata": {func(w *world, _ string) {
			w.registry.Intercept(func(rw http.ResponseWriter, q *http.Request) bool {
				http.Redirect(rw, q, "http://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect)
				return true
			})
		}, "169.254.169.254"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			one, two := w.push("one"), w.push("two")
			w.rollout(one, "100%")
			w.rollout(one, "100%")
			n := w.start(t.TempDir(), w.config("a"))
			w.run(1, 20, n)
			tt.attack(w, two)
			w.run(3, 20, n)
			if s := n.Status(); s.Bundle != one || len(n.gateway.uses) != 1 || !strings.Contains(n.alarms(), tt.want) {
				t.Errorf("bundles %q, alarms %s, want %q", n.gateway.uses, n.alarms(), tt.want)
			}
		})
	}
}

// sign pushes a document as a rollout, whatever it is.
func (w *world) sign(key SecretKey, content []byte) {
	w.t.Helper()
	r, err := oci.ParseReference(w.source)
	if err != nil {
		w.t.Fatal(err)
	}
	k := rollouts
	k.limit = 1 << 30
	if _, err := k.push(w.t.Context(), w.publisher.client, r, content, key); err != nil {
		w.t.Fatal(err)
	}
}

// signed pushes a rollout to all, with any sequence and scope.
func (w *world) signed(key SecretKey, sequence int64, scope, next string) {
	w.t.Helper()
	w.sign(key, fmt.Appendf(nil, `{"kind":"sluice.rollout.v1","scope":%q,"sequence":%d,"created":"2026-01-01T00:00:00Z","expires":"2027-01-01T00:00:00Z","next":%q,"stages":[{"percent":100}]}`,
		scope, sequence, next))
}

// TestStolenKey signs with a stolen key and a huge sequence. Once the key is removed from the nodes, another key signs
// with its own sequence.
func TestStolenKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stolen, own := newKey(t), w.key
	w.rollout(w.push("one"), "100%")
	dir, c := t.TempDir(), w.config("a")
	c.Bundle.Keys = append(c.Bundle.Keys, stolen.Public().String())
	n := w.start(dir, c)
	w.run(1, 20, n)
	w.signed(stolen, 1<<62, w.source, w.push("evil"))
	w.run(7, 20, n)
	if n.gateway.text != "evil" {
		t.Fatalf("got %q", n.gateway.uses)
	}
	n.Close()
	n = w.start(dir, w.config("a"))
	w.signed(own, 2, w.source, w.push("two"))
	w.run(7, 20, n)
	if n.gateway.text != "two" || n.alarms() != "" {
		t.Errorf("got %q, alarms %s", n.gateway.uses, n.alarms())
	}
}

func TestStages(t *testing.T) {
	for _, text := range []string{"tag:canary", "name:node-1+1h0m0s", "25%", "0.5%+30m0s"} {
		if s, err := ParseStage(text); err != nil || s.String() != text || !s.valid() {
			t.Errorf("%s: %+v, error %v", text, s, err)
		}
	}
	for _, text := range []string{"", "25", "0%", "101%", "NaN%", "tag:", "canary", "25%+", "25%+1ns", "25%+-1h", "tag:a+b"} {
		if s, err := ParseStage(text); err == nil {
			t.Errorf("accepted %q as %+v", text, s)
		}
	}
	in := map[float64]int{}
	for i := range 1000 {
		name := fmt.Sprintf("node-%d", i)
		for _, percent := range []float64{10, 50, 100} {
			if s := (Stage{Percent: percent}); s.selects(name, nil) {
				in[percent]++
			} else if smaller := (Stage{Percent: percent / 2}); smaller.selects(name, nil) {
				t.Errorf("%s is in %g %% but not in %g %%", name, percent/2, percent)
			}
		}
	}
	if in[10] < 70 || in[10] > 130 || in[50] < 450 || in[50] > 550 || in[100] != 1000 {
		t.Errorf("of 1000 nodes, %v are in a share of the key", in)
	}
}
