package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/oci/pull"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/modules"
)

// Host is the gateway that serves a node's bundles.
type Host interface {
	// Use serves a bundle. If it returns an error, what was served before is served.
	Use(ctx context.Context, b *config.BundleText) error
	// Serving returns the digest of the bundle that is served.
	Serving() string
	// Figures returns the gateway's counters.
	Figures() Figures
}

// ErrNotNow is the error of Host.Use if the bundle was not tried, and is no reason to refuse it.
var ErrNotNow = errors.New("another reload was in progress")

// Options configure a Node.
type Options struct {
	Dir    string         // of the node's state, which is created
	Config *config.Config // its Bundle and Registries
	Log    *slog.Logger   // nil disables logging
	Now    func() time.Time
}

// Node follows the rollouts of a source. Create it with Open, and Close it.
type Node struct {
	o      Options
	c      *config.Bundle
	keys   []PublicKey
	name   string
	puller *pull.Puller

	// Used only by Open and then by Run.
	fetched map[oci.Digest]*config.BundleText
	retry   time.Time // when a bundle that could not be pulled is pulled again
	began   Figures   // when the bundle in use began to serve
	trial   *trial
	written func() error // called before a new state replaces the old one; nil except in tests

	mu       sync.Mutex
	state    state
	use      *config.BundleText // the bundle in use
	failed   [2]error           // of the last poll and the last step
	polled   time.Time          // the last successful poll
	onTrial  bool
	rollback int64
}

// trial is the trial of a bundle.
type trial struct {
	bundle  *config.BundleText
	old     *config.BundleText
	started time.Time
	before  Figures // of the old bundle, while it served
}

// Open reads a node's state. If there is no bundle on disk that it could start with, it pulls the first one.
func Open(ctx context.Context, o Options) (*Node, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	n := &Node{o: o, c: o.Config.Bundle, name: o.Config.Bundle.NodeName(), fetched: map[oci.Digest]*config.BundleText{}}
	if err := n.parseKeys(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if n.state, err = readState(o.Dir, n.c.Source.String()); err != nil {
		return nil, err
	}
	n.puller = pull.New(pull.Options{Dir: o.Dir, Keep: true, Registry: modules.Registries(o.Config), Log: o.Log})
	if n.use, err = n.first(ctx); err != nil {
		n.puller.Close()
		return nil, err
	}
	return n, nil
}

func (n *Node) parseKeys() error {
	for i, text := range n.c.Keys {
		key, err := ParsePublicKey(text)
		if err != nil {
			return fmt.Errorf("bundle.keys[%d]: %w", i, err)
		}
		n.keys = append(n.keys, key)
	}
	return nil
}

// first returns the bundle to start with.
func (n *Node) first(ctx context.Context) (*config.BundleText, error) {
	for _, digest := range []oci.Digest{n.state.Good, n.state.Previous} {
		if digest == "" {
			continue
		}
		b, err := n.fetch(ctx, digest)
		if err == nil {
			return b, nil
		}
		n.o.Log.Warn("cannot read a bundle", "bundle", string(digest), "error", err)
	}
	if err := n.poll(ctx); err != nil {
		return nil, fmt.Errorf("this node has no bundle yet, and cannot get one: %w", err)
	}
	digest := n.target()
	if digest == "" {
		return nil, errors.New("this node has no bundle yet, and the rollout has none for it")
	}
	b, err := n.fetch(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("this node has no bundle yet, and cannot get one: %w", err)
	}
	return b, nil
}

// Close closes the connections to registries, after Run has returned. A bundle that is on trial is tried again after the
// next start.
func (n *Node) Close() {
	if n.trial != nil {
		if err := n.change(func(s *state) { s.Starts = 0 }); err != nil {
			n.o.Log.Warn("cannot store the state of the bundle", "error", err)
		}
	}
	n.puller.Close()
}

// SetLog sets the log, before Run. A node is opened while the configuration is read, which says where to log.
func (n *Node) SetLog(log *slog.Logger) { n.o.Log = log }

// Bundle returns the bundle in use.
func (n *Node) Bundle() *config.BundleText {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.use
}

// change changes the state, on disk first.
func (n *Node) change(f func(*state)) error {
	n.mu.Lock()
	next := n.state
	n.mu.Unlock()
	next.Sequences, next.Refused = maps.Clone(next.Sequences), maps.Clone(next.Refused)
	f(&next)
	err := next.write(n.o.Dir, n.written)
	if err != nil {
		return fmt.Errorf("store the state of the bundle: %w", err)
	}
	n.mu.Lock()
	n.state = next
	n.mu.Unlock()
	return nil
}

// fetch returns a bundle from disk, or else from the registry, with a valid signature.
func (n *Node) fetch(ctx context.Context, digest oci.Digest) (*config.BundleText, error) {
	if b := n.fetched[digest]; b != nil {
		return b, nil
	}
	r := n.c.Source
	r.Tag, r.Digest = "", digest
	signed, err := bundles.open(ctx, n.puller, r, n.keys)
	if err != nil {
		return nil, err
	}
	b := &config.BundleText{Name: "bundle " + string(digest[:len("sha256:")+12]), Digest: string(digest), Content: signed.Content}
	// The bundles of this rollout, and the last good ones, are enough.
	for other := range n.fetched {
		if other != n.state.Good && other != n.state.Previous {
			delete(n.fetched, other)
		}
	}
	n.fetched[digest] = b
	return b, nil
}

// poll looks at the source, and accepts a new rollout.
func (n *Node) poll(ctx context.Context) error {
	r := n.c.Source
	digest, err := n.puller.Resolve(ctx, r)
	if err != nil {
		return err
	}
	if digest == n.state.Digest {
		return nil
	}
	r.Digest = digest
	signed, err := rollouts.open(ctx, n.puller, r, n.keys)
	if err != nil {
		return err
	}
	rollout, err := parseRollout(signed.Content, n.c.Source.String())
	if err != nil {
		return err
	}
	key := signed.Key.ID()
	if highest := n.state.Sequences[key]; rollout.Sequence <= highest {
		return fmt.Errorf("rollout rejected: its sequence %d is not above %d, which key %s has signed before: it is an old one", rollout.Sequence, highest, key)
	}
	if n.state.Good == "" && n.o.Now().After(rollout.Expires) {
		return fmt.Errorf("rollout rejected: it expired at %s", rollout.Expires.Format(time.RFC3339))
	}
	if err := n.change(func(s *state) { s.Digest, s.Rollout, s.Sequences[key] = digest, rollout, rollout.Sequence }); err != nil {
		return err
	}
	n.o.Log.Info("rollout accepted", "sequence", rollout.Sequence, "next", rollout.Next, "current", rollout.Current, "key", key)
	return nil
}

// target returns the bundle that the node is to run: that of the rollout, or else the last good one if that is refused.
func (n *Node) target() oci.Digest {
	r := n.state.Rollout
	if r == nil {
		return n.state.Good
	}
	for _, digest := range []oci.Digest{r.bundle(n.name, n.c.Tags, n.state.Good, n.o.Now()), oci.Digest(r.Current)} {
		if digest != "" && n.state.Refused[string(digest)] == "" {
			return digest
		}
	}
	return n.state.Good
}

// tick is how often a trial is judged, and stages are checked.
const tick = time.Second

// Run follows the source until ctx ends.
func (n *Node) Run(ctx context.Context, host Host) {
	next, poll := time.NewTicker(tick), time.NewTimer(0)
	defer next.Stop()
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			n.Poll(ctx)
			// Up to a fifth earlier, so that nodes that were started together do not stay together.
			poll.Reset(n.c.Every - rand.N(n.c.Every/5+1))
		case <-next.C:
		}
		if ctx.Err() == nil {
			n.Step(ctx, host)
		}
	}
}

// Poll looks at the source once. It is part of Run.
func (n *Node) Poll(ctx context.Context) {
	err := n.poll(ctx)
	if ctx.Err() != nil {
		return
	}
	n.report(polling, "cannot follow the rollout", err)
	if err == nil {
		n.mu.Lock()
		n.polled = n.o.Now()
		n.mu.Unlock()
	}
}

// The parts of Run whose errors are reported.
const (
	polling = iota
	stepping
)

// report records an error, and logs it unless it is the last one again.
func (n *Node) report(part int, what string, err error) {
	n.mu.Lock()
	again := err != nil && n.failed[part] != nil && n.failed[part].Error() == err.Error()
	n.failed[part] = err
	n.mu.Unlock()
	if err != nil && !again {
		n.o.Log.Warn(what, "error", err)
	}
}

// Step does what is to be done next: it judges a trial, or begins one. It is part of Run.
func (n *Node) Step(ctx context.Context, host Host) {
	if host.Serving() != n.Bundle().Digest {
		// A reload has read the previous bundle while this one was put into use.
		if err := host.Use(ctx, n.Bundle()); err != nil {
			n.report(stepping, "cannot return to the bundle in use", err)
		}
		return
	}
	if n.state.Good == "" {
		// The first bundle serves. There is none to return to, so it has no trial.
		if err := n.change(func(s *state) { s.Good = oci.Digest(n.Bundle().Digest) }); err != nil {
			n.report(stepping, "cannot keep the bundle for the next start", err)
			return
		}
	}
	want := n.target()
	if n.trial != nil {
		if string(want) == n.trial.bundle.Digest {
			n.judge(ctx, host)
			return
		}
		n.back(ctx, host, "") // withdrawn
		return
	}
	if string(want) == n.Bundle().Digest || want == "" || n.o.Now().Before(n.retry) {
		return
	}
	if err := n.try(ctx, host, want); err != nil && ctx.Err() == nil {
		n.retry = n.o.Now().Add(n.c.Every)
		n.report(stepping, "cannot change the bundle", err)
	}
}

// try puts a bundle into use, on trial. Everything that it needs is pulled before anything is changed.
func (n *Node) try(ctx context.Context, host Host, digest oci.Digest) error {
	b, err := n.fetch(ctx, digest)
	if err != nil {
		return err
	}
	if n.state.Trying == digest && n.state.Starts >= maxStarts {
		return n.refuse(digest, "the process ended in each of its trials")
	}
	err = n.change(func(s *state) {
		if s.Trying != digest {
			s.Trying, s.Starts = digest, 0
		}
		s.Starts++
	})
	if err != nil {
		return err
	}
	old, before := n.Bundle(), host.Figures()
	if err := host.Use(ctx, b); err != nil {
		if errors.Is(err, ErrNotNow) || ctx.Err() != nil {
			return errors.Join(err, n.change(func(s *state) { s.Starts-- }))
		}
		return n.refuse(digest, "it cannot be loaded: "+err.Error())
	}
	n.trial = &trial{bundle: b, old: old, started: n.o.Now(), before: before.since(n.began)}
	n.began = host.Figures() // again, because counts of models that are gone are not in it
	n.set(b, true)
	n.o.Log.Info("bundle on trial", "bundle", b.Digest, "before", old.Digest, "trial", n.c.Trial)
	n.report(stepping, "", nil)
	return nil
}

func (n *Node) set(b *config.BundleText, onTrial bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.use, n.onTrial = b, onTrial
}

// judge ends the trial if the bundle is worse, or if its time is up and there were enough requests.
func (n *Node) judge(ctx context.Context, host Host) {
	now := host.Figures().since(n.began)
	if reason := worse(n.c, n.trial.before, now); reason != "" {
		n.back(ctx, host, reason)
		return
	}
	if n.o.Now().Sub(n.trial.started) < n.c.Trial || now.Requests < n.c.MinRequests {
		return
	}
	digest := oci.Digest(n.trial.bundle.Digest)
	err := n.change(func(s *state) { s.Previous, s.Good, s.Trying, s.Starts = s.Good, digest, "", 0 })
	if err != nil {
		n.report(stepping, "cannot end the trial", err)
		return
	}
	n.trial = nil
	n.set(n.Bundle(), false)
	n.report(stepping, "", nil)
	n.o.Log.Info("bundle has passed its trial", "bundle", string(digest), "requests", now.Requests)
}

// back returns to the bundle before the trial. With a reason, the bundle on trial is refused from now on.
func (n *Node) back(ctx context.Context, host Host, reason string) {
	if err := host.Use(ctx, n.trial.old); err != nil {
		n.report(stepping, "cannot return to the previous bundle", err)
		return
	}
	digest := oci.Digest(n.trial.bundle.Digest)
	n.began = host.Figures()
	n.set(n.trial.old, false)
	n.trial = nil
	if reason == "" {
		n.o.Log.Info("bundle withdrawn", "bundle", string(digest), "now", n.Bundle().Digest)
		n.report(stepping, "cannot store that the trial has ended", n.change(func(s *state) { s.Trying, s.Starts = "", 0 }))
		return
	}
	n.mu.Lock()
	n.rollback++
	n.mu.Unlock()
	n.report(stepping, "cannot store that the bundle is refused", n.refuse(digest, reason))
}

// maxRefused limits the bundles that a node remembers as refused.
const maxRefused = 32

// refuse keeps a bundle from being tried again. If that cannot be stored, it is refused until the next start.
func (n *Node) refuse(digest oci.Digest, reason string) error {
	n.o.Log.Error("bundle refused; keeping the previous one", "bundle", string(digest), "reason", reason)
	refuse := func(s *state) {
		if len(s.Refused) >= maxRefused {
			clear(s.Refused)
		}
		s.Refused[string(digest)], s.Trying, s.Starts = reason, "", 0
	}
	err := n.change(refuse)
	if err != nil {
		n.mu.Lock()
		n.state.Refused = maps.Clone(n.state.Refused)
		refuse(&n.state)
		n.mu.Unlock()
	}
	return err
}

// Status is the state of a node.
type Status struct {
	Node     string
	Tags     []string
	Source   string
	Bundle   string // digest of the bundle in use
	Trial    bool   // it is on trial
	Good     string // digest of the last bundle that has passed its trial
	Sequence int64  // of the rollout; 0 if there is none
	Next     string // digest of the rollout's next bundle
	Expires  time.Time
	Refused  map[string]string // reasons, by digest
	Polled   time.Time         // when the source responded last; zero for never
	Rollback int64             // trials that ended with the previous bundle
	Alarms   []string          // what does not work
}

// Status returns the state of the node.
func (n *Node) Status() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := Status{
		Node: n.name, Tags: n.c.Tags, Source: n.c.Source.String(), Bundle: n.use.Digest, Trial: n.onTrial, Good: string(n.state.Good),
		Refused: maps.Clone(n.state.Refused), Polled: n.polled, Rollback: n.rollback,
	}
	if r := n.state.Rollout; r != nil {
		s.Sequence, s.Next, s.Expires = r.Sequence, r.Next, r.Expires
		if reason := s.Refused[r.Next]; reason != "" {
			s.Alarms = append(s.Alarms, "the bundle "+r.Next+" is refused: "+reason)
		}
		if n.o.Now().After(r.Expires) {
			s.Alarms = append(s.Alarms, "the rollout expired at "+r.Expires.Format(time.RFC3339)+": perhaps somebody withholds later ones")
		}
	}
	for _, err := range n.failed {
		if err != nil {
			s.Alarms = append(s.Alarms, err.Error())
		}
	}
	return s
}

// Stored returns the bundle with which a node would start, if it is on disk; nil otherwise.
func Stored(ctx context.Context, o Options) (*config.BundleText, error) {
	s, err := readState(o.Dir, o.Config.Bundle.Source.String())
	if err != nil || s.Good == "" {
		return nil, err
	}
	n := &Node{o: o, c: o.Config.Bundle, state: s, fetched: map[oci.Digest]*config.BundleText{}}
	if err := n.parseKeys(); err != nil {
		return nil, err
	}
	n.puller = pull.New(pull.Options{Dir: o.Dir, Offline: true, Registry: modules.Registries(o.Config)})
	defer n.puller.Close()
	return n.fetch(ctx, s.Good)
}
