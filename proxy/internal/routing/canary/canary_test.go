package canary_test

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
)

var start = time.Unix(1_800_000_000, 0)

// settings are the settings of the example in the documentation.
var settings = canary.Settings{
	Target: "new/model", Steps: []float64{0.01, 0.1, 0.5}, Every: 10 * time.Minute, MaxErrors: 0.05, MaxTraps: 1,
}

// process simulates restarts of a gateway: the clock, the state folder and the log are shared by the Sets that it
// starts.
type process struct {
	*canary.Set
	now time.Time
	dir string
	log bytes.Buffer
}

func (p *process) start() {
	p.Set = canary.New(canary.Options{Dir: func() (string, error) { return p.dir, nil }, Now: func() time.Time { return p.now }, Log: slog.New(slog.NewTextHandler(&p.log, nil))})
}

// use makes the canary of model m the only one in use.
func (p *process) use(s canary.Settings) *canary.Canary {
	c := p.Get("m", s)
	p.Use([]*canary.Canary{c})
	return c
}

func newProcess(t testing.TB) *process {
	p := &process{now: start, dir: t.TempDir()}
	p.start()
	t.Cleanup(func() { p.Close() })
	return p
}

// admitted returns the share of 100,000 conversations that a canary admits.
func admitted(c *canary.Canary, now time.Time) float64 {
	n := 0
	for i := range 100_000 {
		if c.Admits(uint64(i), now) {
			n++
		}
	}
	return float64(n) / 100_000
}

func near(a, b float64) bool { return a-b < 0.01 && b-a < 0.01 }

func TestStepsFollowEachOther(t *testing.T) {
	p := newProcess(t)
	c := p.use(settings)
	for i, want := range []float64{0.01, 0.1, 0.5, 0.5, 0.5} {
		if got := admitted(c, p.now); !near(got, want) {
			t.Errorf("after %d periods: admits %.3f of the conversations, want %.2f", i, got, want)
		}
		if got := admitted(c, p.now.Add(10*time.Minute-1)); !near(got, want) {
			t.Errorf("at the end of period %d: admits %.3f of the conversations, want %.2f", i, got, want)
		}
		p.now = p.now.Add(10 * time.Minute)
	}
	if s := p.Status()[0]; s.Step != 3 || s.Steps != 3 || s.Share != 0.5 || s.Reason != "" || s.Model != "m" || s.Target != "new/model" {
		t.Errorf("%+v", s)
	}
	for _, want := range []string{"step=1 steps=3 share=0.01", "step=2 steps=3 share=0.1", "step=3 steps=3 share=0.5"} {
		if strings.Count(p.log.String(), want) != 1 {
			t.Errorf("want %q once in the log:\n%s", want, &p.log)
		}
	}
}

// Each step must see requests, so a long time without any advances the canary by one step only.
func TestStepsAreNotSkipped(t *testing.T) {
	p := newProcess(t)
	c := p.use(settings)
	p.now = p.now.Add(12 * time.Hour)
	if got := admitted(c, p.now); !near(got, 0.1) {
		t.Errorf("admits %.3f of the conversations, want 0.1", got)
	}
}

func TestConversationStaysAdmitted(t *testing.T) {
	p := newProcess(t)
	c := p.use(settings)
	var admitted []uint64
	for h := range uint64(10_000) {
		if c.Admits(h, p.now) {
			admitted = append(admitted, h)
		}
	}
	if len(admitted) == 0 {
		t.Fatal("no conversation was admitted")
	}
	for range 2 {
		p.now = p.now.Add(settings.Every)
		for _, h := range admitted {
			if !c.Admits(h, p.now) {
				t.Fatalf("conversation %d is no longer admitted after the share grew", h)
			}
		}
	}
}

// Different canaries admit different conversations, so that a user is not affected by all of them.
func TestCanariesAdmitDifferentConversations(t *testing.T) {
	p := newProcess(t)
	other := settings
	other.Target = "newer/model"
	a, b := p.Get("m", settings), p.Get("n", other)
	p.Use([]*canary.Canary{a, b})
	both := 0
	for h := range uint64(100_000) {
		if a.Admits(h, p.now) && b.Admits(h, p.now) {
			both++
		}
	}
	if both > 40 { // 10 are expected
		t.Errorf("both canaries admit %d of 100000 conversations", both)
	}
}

func TestRollBack(t *testing.T) {
	const ok, fails, traps = canary.Succeeded, canary.Failed, canary.Trapped
	repeat := func(o canary.Outcome, n int) []canary.Outcome { return slices.Repeat([]canary.Outcome{o}, n) }
	for _, c := range []struct {
		name     string
		change   func(*canary.Settings)
		attempts []canary.Outcome
		reason   string
	}{
		{"one error is too few", nil, repeat(fails, 1), ""},
		{"two errors are too few", nil, repeat(fails, 2), ""},
		{"three errors in three attempts", nil, repeat(fails, 3), "errors: 3 of 3 attempts, rolled back above 5 %"},
		{"errors at the maximum", nil, append(repeat(ok, 95), repeat(fails, 5)...), ""},
		{"errors above the maximum", nil, append(repeat(ok, 95), repeat(fails, 6)...), "errors: 6 of 101 attempts, rolled back above 5 %"},
		{"check of errors disabled", func(s *canary.Settings) { s.MaxErrors = 1 }, repeat(fails, 100), ""},
		{"maximum of zero errors", func(s *canary.Settings) { s.MaxErrors = 0 }, append(repeat(ok, 1000), repeat(fails, 3)...), "errors: 3 of 1003 attempts, rolled back above 0 %"},
		{"first trap", nil, append(repeat(ok, 1000), traps), "plugin traps: 1, rolled back at 1"},
		{"second trap", func(s *canary.Settings) { s.MaxTraps = 2 }, append(repeat(ok, 1000), traps, ok, traps), "plugin traps: 2, rolled back at 2"},
		{"check of traps disabled", func(s *canary.Settings) { s.MaxTraps = 0 }, append(repeat(ok, 1000), repeat(traps, 9)...), ""},
		{"traps are errors as well", func(s *canary.Settings) { s.MaxTraps = 0 }, repeat(traps, 3), "errors: 3 of 3 attempts, rolled back above 5 %"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s := newProcess(t), settings
			if c.change != nil {
				c.change(&s)
			}
			rolledBack := c.reason != ""
			tested := p.use(s)
			for i, o := range c.attempts {
				if reason := p.Status()[0].Reason; reason != "" {
					t.Fatalf("rolled back after %d attempts: %s", i, reason)
				}
				tested.Record(o, p.now)
			}
			status := p.Status()[0]
			if status.Reason != c.reason || (status.Share == 0) != rolledBack || status.RolledBack.IsZero() == rolledBack {
				t.Errorf("status %+v, want the reason %q", status, c.reason)
			}
			p.now = p.now.Add(24 * time.Hour)
			if got := admitted(tested, p.now); (got == 0) != rolledBack {
				t.Errorf("a day later the canary admits %.3f of the conversations", got)
			}
			if got := strings.Count(p.log.String(), "canary rolled back"); (got == 1) != rolledBack {
				t.Errorf("%d rollbacks in the log:\n%s", got, &p.log)
			}
		})
	}
}

// Successes in an earlier step must not outweigh errors, but the counts of a step with few attempts are carried over.
func TestErrorsAreCountedPerStep(t *testing.T) {
	for _, c := range []struct {
		succeeded  int
		rolledBack bool
	}{{10_000, true}, {20, true}, {19, false}} {
		p := newProcess(t)
		tested := p.use(canary.Settings{Target: "p/m", Steps: []float64{0.5}, Every: time.Minute, MaxErrors: 0.2})
		for range c.succeeded {
			tested.Record(canary.Succeeded, p.now)
		}
		p.now = p.now.Add(time.Minute)
		tested.Admits(1, p.now)
		for range 3 {
			tested.Record(canary.Failed, p.now)
		}
		if s := p.Status()[0]; (s.Reason != "") != c.rolledBack {
			t.Errorf("three failures after %d successes in the previous period: %+v", c.succeeded, s)
		}
	}
}

func TestStateSurvivesRestart(t *testing.T) {
	p := newProcess(t)
	c := p.use(settings)
	p.now = p.now.Add(settings.Every)
	c.Admits(1, p.now)
	c.Record(canary.Failed, p.now)
	p.Close()
	p.start()
	c = p.use(settings)
	if s := p.Status()[0]; s.Step != 2 || s.Attempts != 1 || s.Errors != 1 || !s.Began.Equal(p.now) {
		t.Errorf("after a restart: %+v", s)
	}
	c.Record(canary.Trapped, p.now)
	at := p.now
	p.now = p.now.Add(time.Hour)
	p.Close()
	p.start()
	c = p.use(settings)
	if s := p.Status()[0]; s.Reason != "plugin traps: 1, rolled back at 1" || !s.RolledBack.Equal(at) || c.Admits(1, p.now) || s.Share != 0 {
		t.Errorf("after a rollback and a restart: %+v", s)
	}
	if want := "canary stays rolled back"; !strings.Contains(p.log.String(), want) {
		t.Errorf("want %q in the log:\n%s", want, &p.log)
	}

	changed := settings
	changed.Every++
	p.use(changed)
	if s := p.Status()[0]; s.Reason != "" || s.Step != 1 || s.Traps != 0 || s.Share != 0.01 {
		t.Errorf("with changed settings: %+v", s)
	}
	p.Close()
	p.start()
	p.use(settings)
	if s := p.Status()[0]; s.Reason != "" {
		t.Errorf("with the original settings after changed ones: %+v", s)
	}
	p.Use(nil)
	p.Close()
	if _, err := os.Stat(filepath.Join(p.dir, "canary.json")); !os.IsNotExist(err) {
		t.Errorf("the file exists without any canary: %v", err)
	}
}

// A failed reload calls Get, but not Use.
func TestFailedReloadChangesNothing(t *testing.T) {
	p := newProcess(t)
	c := p.use(settings)
	c.Record(canary.Trapped, p.now)
	changed := settings
	changed.Every++
	if n := p.Get("m", changed); n == c || n.Admits(1, p.now) {
		t.Error("Get with changed settings returned the canary in use, or one that admits requests before Use")
	}
	if p.Get("m", settings) != c || p.Status()[0].Reason == "" {
		t.Error("the canary in use has changed")
	}
	p.Close()
	p.start()
	p.Close() // a failed start, without Use
	p.start()
	if p.use(settings); p.Status()[0].Reason == "" {
		t.Error("a failed start has lost the state")
	}
}

func TestDamagedFileRollsBack(t *testing.T) {
	p := newProcess(t)
	p.use(settings)
	p.Close()
	file := filepath.Join(p.dir, "canary.json")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damaged := map[string][]byte{"empty": {}, "truncated": whole[:len(whole)/2], "other format": bytes.Replace(whole, []byte(`"format":1`), []byte(`"format":2`), 1)}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	damaged["flipped bit"] = flipped
	for name, data := range damaged {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		p.log.Reset()
		p.start()
		c := p.use(settings)
		if s := p.Status()[0]; s.Share != 0 || !strings.HasPrefix(s.Reason, "its state was lost: ") || c.Admits(1, p.now) {
			t.Errorf("%s: %+v", name, s)
		}
		if !strings.Contains(p.log.String(), "level=ERROR") {
			t.Errorf("%s: no error in the log", name)
		}
		p.Close()
		p.start() // the file has been replaced by a valid one
		if p.use(settings); p.Status()[0].Share != 0 || strings.Count(p.log.String(), "level=ERROR") != 1 {
			t.Errorf("%s: after another restart: %+v", name, p.Status()[0])
		}
		p.Close()
	}
	p.start()
}

func TestWithoutFolder(t *testing.T) {
	var log bytes.Buffer
	for name, dir := range map[string]func() (string, error){
		"failing Dir": func() (string, error) { return "", errors.New("no state folder") },
		"nil Dir":     nil,
	} {
		log.Reset()
		s := canary.New(canary.Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
		c := s.Get("m", settings)
		s.Use([]*canary.Canary{c})
		c.Record(canary.Trapped, start)
		if got := s.Status()[0]; got.Reason == "" {
			t.Errorf("%s: %+v", name, got)
		}
		s.Close()
		if logged := strings.Contains(log.String(), "will not survive a restart\" error=\"no state folder"); logged != (dir != nil) {
			t.Errorf("%s: log:\n%s", name, &log)
		}
	}
	canary.New(canary.Options{}).Close()
}

func TestUnwritableFolderIsLogged(t *testing.T) {
	p := &process{now: start, dir: filepath.Join(t.TempDir(), "missing")}
	p.start()
	c := p.use(settings)
	c.Record(canary.Trapped, p.now)
	p.Close()
	if s := p.Status()[0]; s.Reason == "" || !strings.Contains(p.log.String(), "cannot save canary states") {
		t.Errorf("%+v, log:\n%s", s, &p.log)
	}
}

// model is a simpler implementation of a canary, which keeps a list of attempts instead of counts.
type model struct {
	settings   canary.Settings
	step       int
	began      time.Time
	attempts   []canary.Outcome // in this step, and in earlier ones that had too few
	traps      int
	rolledBack bool
}

func (m *model) advance(now time.Time) {
	if m.rolledBack || now.Sub(m.began) < m.settings.Every {
		return
	}
	m.began, m.step = now, min(m.step+1, len(m.settings.Steps)-1)
	if len(m.attempts) >= 20 {
		m.attempts = nil
	}
}

func (m *model) record(o canary.Outcome) {
	if m.rolledBack {
		return
	}
	m.attempts = append(m.attempts, o)
	failed := 0
	for _, o := range m.attempts {
		if o != canary.Succeeded {
			failed++
		}
	}
	if o == canary.Trapped {
		m.traps++
	}
	tooManyTraps := m.settings.MaxTraps > 0 && m.traps >= m.settings.MaxTraps
	tooManyErrors := failed >= 3 && float64(failed) > m.settings.MaxErrors*float64(len(m.attempts))
	m.rolledBack = o != canary.Succeeded && (tooManyTraps || tooManyErrors)
}

// TestRandomHistories compares a canary with a model of it.
func TestRandomHistories(t *testing.T) {
	if testing.Short() {
		t.Skip("restarts thousands of times")
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		p := &process{now: start, dir: dir}
		_ = os.Remove(filepath.Join(dir, "canary.json"))
		p.start()
		defer func() { p.Close() }()
		variants := []canary.Settings{settings, settings}
		for i := range variants {
			s := &variants[i]
			s.Steps = rapid.SliceOfNDistinct(rapid.Float64Range(0.001, 1), 1, 4, rapid.ID).Draw(t, "steps")
			slices.Sort(s.Steps)
			s.Every = time.Duration(rapid.IntRange(1, 20).Draw(t, "minutes")) * time.Minute
			s.MaxErrors = rapid.SampledFrom([]float64{0, 0.05, 0.5, 1}).Draw(t, "errors")
			s.MaxTraps = rapid.IntRange(0, 3).Draw(t, "traps")
		}
		variants[1].Target = "newer/model"
		m := model{settings: variants[0], began: p.now}
		c, admitted := p.use(variants[0]), map[uint64]bool{}
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			switch rapid.SampledFrom([]string{"request", "request", "request", "request", "attempts", "time", "restart", "reload", "change"}).Draw(t, "event") {
			case "request":
				h := rapid.Uint64Range(0, 20).Draw(t, "conversation")
				m.advance(p.now)
				got := c.Admits(h, p.now)
				if got && m.rolledBack || admitted[h] && !got && !m.rolledBack {
					t.Fatalf("conversation %d admitted: %v, before: %v, rolled back: %v", h, got, admitted[h], m.rolledBack)
				}
				admitted[h] = admitted[h] || got
			case "attempts":
				o := rapid.SampledFrom([]canary.Outcome{canary.Succeeded, canary.Succeeded, canary.Failed, canary.Trapped}).Draw(t, "outcome")
				for range rapid.IntRange(1, 25).Draw(t, "times") {
					c.Record(o, p.now)
					m.record(o)
				}
			case "time":
				p.now = p.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "minutes")) * time.Minute)
			case "restart":
				p.Close()
				p.start()
				c, m.began = p.use(m.settings), p.now
			case "reload":
				c = p.use(m.settings)
			case "change":
				next := variants[0]
				if m.settings.Target == next.Target {
					next = variants[1]
				}
				m, c, admitted = model{settings: next, began: p.now}, p.use(next), map[uint64]bool{}
			}
			share := m.settings.Steps[m.step]
			if m.rolledBack {
				share = 0
			}
			if s := p.Status()[0]; s.Share != share || s.Step != m.step+1 || (s.Reason != "") != m.rolledBack || s.Attempts != int64(len(m.attempts)) {
				t.Fatalf("%+v, want the share %v in step %d after %d attempts, rolled back: %v", s, share, m.step+1, len(m.attempts), m.rolledBack)
			}
		}
	})
}

// TestConcurrentRequests runs requests concurrently with changes of the step, a rollback and calls of Status.
func TestConcurrentRequests(t *testing.T) {
	p := newProcess(t)
	c := p.use(settings)
	done := make(chan struct{})
	for g := range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range 2000 {
				now := start.Add(time.Duration(i) * time.Second)
				if c.Admits(rand.Uint64(), now) {
					c.Record(canary.Succeeded, now)
				}
				if g == 0 && i%100 == 0 {
					p.Status()
				}
			}
			if g == 1 {
				c.Record(canary.Trapped, start)
			}
		}()
	}
	for range 4 {
		<-done
	}
	if s := p.Status()[0]; s.Step != 3 || s.Traps != 1 || s.Reason == "" {
		t.Errorf("%+v", s)
	}
}

func TestAdmitsDoesNotAllocate(t *testing.T) {
	p := newProcess(t)
	c, h := p.use(settings), uint64(0)
	if n := testing.AllocsPerRun(100, func() { h++; c.Admits(h, p.now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdmits(b *testing.B) {
	p := newProcess(b)
	c, h := p.use(settings), uint64(0)
	for b.Loop() {
		h++
		c.Admits(h, p.now)
	}
}
