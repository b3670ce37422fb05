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

// settings are those of the documentation.
var settings = canary.Settings{
	Target: "new/model", Steps: []float64{0.01, 0.1, 0.5}, Every: 10 * time.Minute, MaxErrors: 0.05, MaxTraps: 1,
}

// process is a gateway's life as far as canaries go: a clock, a folder and a log.
type process struct {
	*canary.Set
	now time.Time
	dir string
	log bytes.Buffer
}

func (p *process) start() {
	p.Set = canary.New(canary.Options{Dir: func() (string, error) { return p.dir, nil }, Now: func() time.Time { return p.now }, Log: slog.New(slog.NewTextHandler(&p.log, nil))})
}

// use makes one model's canary the only one.
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

// admitted is the share of a thousand conversations that a canary admits.
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
			t.Errorf("after %d periods: %.3f of the conversations, want %.2f", i, got, want)
		}
		if got := admitted(c, p.now.Add(10*time.Minute-1)); !near(got, want) {
			t.Errorf("at the end of period %d: %.3f of the conversations, want %.2f", i, got, want)
		}
		p.now = p.now.Add(10 * time.Minute)
	}
	if s := p.Status()[0]; s.Step != 3 || s.Steps != 3 || s.Share != 0.5 || s.Reason != "" || s.Model != "m" || s.Target != "new/model" {
		t.Errorf("%+v", s)
	}
	for _, want := range []string{"step=1 steps=3 share=0.01", "step=2 steps=3 share=0.1", "step=3 steps=3 share=0.5"} {
		if strings.Count(p.log.String(), want) != 1 {
			t.Errorf("%q is not once in the log:\n%s", want, &p.log)
		}
	}
}

// A night without requests does not lead from the first step to the last.
func TestStepsAreNotSkipped(t *testing.T) {
	p := newProcess(t)
	c := p.use(settings)
	p.now = p.now.Add(12 * time.Hour)
	if got := admitted(c, p.now); !near(got, 0.1) {
		t.Errorf("%.3f of the conversations, want the second step", got)
	}
}

func TestConversationStaysIn(t *testing.T) {
	p := newProcess(t)
	c := p.use(settings)
	var in []uint64
	for h := range uint64(10_000) {
		if c.Admits(h, p.now) {
			in = append(in, h)
		}
	}
	if len(in) == 0 {
		t.Fatal("no conversation was admitted")
	}
	for range 2 {
		p.now = p.now.Add(settings.Every)
		for _, h := range in {
			if !c.Admits(h, p.now) {
				t.Fatalf("conversation %d left when the share grew", h)
			}
		}
	}
}

// Two canaries do not try their luck on the same conversations.
func TestCanariesDiffer(t *testing.T) {
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
		t.Errorf("%d conversations of 100000 are in both", both)
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
		{"one error of one is no verdict", nil, repeat(fails, 1), ""},
		{"two errors of two are none", nil, repeat(fails, 2), ""},
		{"three errors of three", nil, repeat(fails, 3), "errors: 3 of 3 attempts, rolled back above 5 %"},
		{"five percent are tolerated", nil, append(repeat(ok, 95), repeat(fails, 5)...), ""},
		{"more are not", nil, append(repeat(ok, 95), repeat(fails, 6)...), "errors: 6 of 101 attempts, rolled back above 5 %"},
		{"errors that do not matter", func(s *canary.Settings) { s.MaxErrors = 1 }, repeat(fails, 100), ""},
		{"no error tolerated", func(s *canary.Settings) { s.MaxErrors = 0 }, append(repeat(ok, 1000), repeat(fails, 3)...), "errors: 3 of 1003 attempts, rolled back above 0 %"},
		{"first trap", nil, append(repeat(ok, 1000), traps), "plugin traps: 1, rolled back at 1"},
		{"second trap", func(s *canary.Settings) { s.MaxTraps = 2 }, append(repeat(ok, 1000), traps, ok, traps), "plugin traps: 2, rolled back at 2"},
		{"traps that do not matter", func(s *canary.Settings) { s.MaxTraps = 0 }, append(repeat(ok, 1000), repeat(traps, 9)...), ""},
		{"traps are errors as well", func(s *canary.Settings) { s.MaxTraps = 0 }, repeat(traps, 3), "errors: 3 of 3 attempts, rolled back above 5 %"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s := newProcess(t), settings
			if c.change != nil {
				c.change(&s)
			}
			used := p.use(s)
			for i, o := range c.attempts {
				if reason := p.Status()[0].Reason; reason != "" {
					t.Fatalf("rolled back after %d attempts: %s", i, reason)
				}
				used.Record(o, p.now)
			}
			status := p.Status()[0]
			if status.Reason != c.reason || (status.Share == 0) != (c.reason != "") || status.RolledBack.IsZero() != (c.reason == "") {
				t.Errorf("%+v, want the reason %q", status, c.reason)
			}
			p.now = p.now.Add(24 * time.Hour)
			if got := admitted(used, p.now); (got == 0) != (c.reason != "") {
				t.Errorf("a day later it has %.3f of the conversations", got)
			}
			if got := strings.Count(p.log.String(), "canary rolled back"); (got == 1) != (c.reason != "") {
				t.Errorf("%d lines in the log:\n%s", got, &p.log)
			}
		})
	}
}

// A long good time does not outweigh a bad one, and a step with few attempts is judged together with the next.
func TestErrorsAreCountedInOneStep(t *testing.T) {
	for _, c := range []struct {
		good int
		back bool
	}{{10_000, true}, {20, true}, {19, false}} {
		p := newProcess(t)
		used := p.use(canary.Settings{Target: "p/m", Steps: []float64{0.5}, Every: time.Minute, MaxErrors: 0.2})
		for range c.good {
			used.Record(canary.Succeeded, p.now)
		}
		p.now = p.now.Add(time.Minute)
		used.Admits(1, p.now)
		for range 3 {
			used.Record(canary.Failed, p.now)
		}
		if s := p.Status()[0]; (s.Reason != "") != c.back {
			t.Errorf("after %d good attempts, three failed: %+v", c.good, s)
		}
	}
}

func TestStateOutlivesRestart(t *testing.T) {
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
		t.Errorf("rolled back, and after a restart: %+v", s)
	}
	if !strings.Contains(p.log.String(), "canary stays rolled back") {
		t.Errorf("not in the log:\n%s", &p.log)
	}

	changed := settings
	changed.Every++
	p.use(changed)
	if s := p.Status()[0]; s.Reason != "" || s.Step != 1 || s.Traps != 0 || s.Share != 0.01 {
		t.Errorf("with another table: %+v", s)
	}
	p.Close()
	p.start()
	p.use(settings)
	if s := p.Status()[0]; s.Reason != "" {
		t.Errorf("the old table, after another one: %+v", s)
	}
	p.Use(nil)
	p.Close()
	if _, err := os.Stat(filepath.Join(p.dir, "canary.json")); !os.IsNotExist(err) {
		t.Errorf("without canaries there is still a file: %v", err)
	}
}

// A reload that fails asks for canaries that it does not use.
func TestFailedReloadChangesNothing(t *testing.T) {
	p := newProcess(t)
	c := p.use(settings)
	c.Record(canary.Trapped, p.now)
	changed := settings
	changed.Every++
	if n := p.Get("m", changed); n == c || n.Admits(1, p.now) {
		t.Error("another table is another canary, which admits nothing before it is used")
	}
	if p.Get("m", settings) != c || p.Status()[0].Reason == "" {
		t.Error("the canary in use has changed")
	}
	p.Close()
	p.start()
	p.Close() // without a configuration: the start failed
	p.start()
	if p.use(settings); p.Status()[0].Reason == "" {
		t.Error("forgotten by a start that failed")
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
	damaged := map[string][]byte{"empty": {}, "cut off": whole[:len(whole)/2], "other format": bytes.Replace(whole, []byte(`"format":1`), []byte(`"format":2`), 1)}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	damaged["one bit"] = flipped
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
		p.start() // the file that was written since is whole
		if p.use(settings); p.Status()[0].Share != 0 || strings.Count(p.log.String(), "level=ERROR") != 1 {
			t.Errorf("%s: %+v after another restart", name, p.Status()[0])
		}
		p.Close()
	}
	p.start()
}

func TestWithoutFolder(t *testing.T) {
	var log bytes.Buffer
	for name, dir := range map[string]func() (string, error){
		"there is none": func() (string, error) { return "", errors.New("no state folder") },
		"not wanted":    nil,
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
		if said := strings.Contains(log.String(), "will not survive a restart\" error=\"no state folder"); said != (dir != nil) {
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

// model is what a canary should be, said in another way: all attempts of a step in a list.
type model struct {
	settings canary.Settings
	step     int
	began    time.Time
	period   []canary.Outcome
	traps    int
	back     bool
}

func (m *model) advance(now time.Time) {
	if m.back || now.Sub(m.began) < m.settings.Every {
		return
	}
	m.began, m.step = now, min(m.step+1, len(m.settings.Steps)-1)
	if len(m.period) >= 20 {
		m.period = nil
	}
}

func (m *model) record(o canary.Outcome) {
	if m.back {
		return
	}
	m.period = append(m.period, o)
	failed := 0
	for _, o := range m.period {
		if o != canary.Succeeded {
			failed++
		}
	}
	if o == canary.Trapped {
		m.traps++
	}
	// It is judged when something has failed, not by a success that makes the share smaller.
	m.back = o != canary.Succeeded && (m.settings.MaxTraps > 0 && m.traps >= m.settings.MaxTraps || failed >= 3 && float64(failed) > m.settings.MaxErrors*float64(len(m.period)))
}

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
		tables := []canary.Settings{settings, settings}
		for i := range tables {
			s := &tables[i]
			s.Steps = rapid.SliceOfNDistinct(rapid.Float64Range(0.001, 1), 1, 4, rapid.ID).Draw(t, "steps")
			slices.Sort(s.Steps)
			s.Every = time.Duration(rapid.IntRange(1, 20).Draw(t, "minutes")) * time.Minute
			s.MaxErrors = rapid.SampledFrom([]float64{0, 0.05, 0.5, 1}).Draw(t, "errors")
			s.MaxTraps = rapid.IntRange(0, 3).Draw(t, "traps")
		}
		tables[1].Target = "newer/model"
		m := model{settings: tables[0], began: p.now}
		c, in := p.use(tables[0]), map[uint64]bool{}
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			switch rapid.SampledFrom([]string{"request", "request", "request", "request", "attempts", "time", "restart", "reload", "table"}).Draw(t, "event") {
			case "request":
				h := rapid.Uint64Range(0, 20).Draw(t, "conversation")
				m.advance(p.now)
				got := c.Admits(h, p.now)
				if got && m.back || in[h] && !got && !m.back {
					t.Fatalf("conversation %d admitted: %v, before: %v, rolled back: %v", h, got, in[h], m.back)
				}
				in[h] = in[h] || got
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
			case "table":
				next := tables[0]
				if m.settings.Target == next.Target {
					next = tables[1]
				}
				m, c, in = model{settings: next, began: p.now}, p.use(next), map[uint64]bool{}
			}
			share := m.settings.Steps[m.step]
			if m.back {
				share = 0
			}
			if s := p.Status()[0]; s.Share != share || s.Step != m.step+1 || (s.Reason != "") != m.back || s.Attempts != int64(len(m.period)) {
				t.Fatalf("%+v, want the share %v in step %d after %d attempts, rolled back: %v", s, share, m.step+1, len(m.period), m.back)
			}
		}
	})
}

// Requests of one model meet each other, a step that ends, a roll-back, and whoever asks for the status.
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
