package plugindev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// SuiteFile is the file at the root of a folder of vectors that says what they are for; see Suite. Recordings have one.
const SuiteFile = "suite.json"

// Suite is the vectors of a folder, and the plugin that they are for.
type Suite struct {
	Dir    string `json:"-"`
	Plugin string `json:"plugin"` // its name
	Module string `json:"module"` // its file, relative to the folder; empty is the bundled plugin of the name, or one that the caller knows
	Use    Use    `json:"-"`

	cases []testCase
}

// testCase is a folder with an input and what should come of it: a vector of a provider, a route of a router, or texts of a filter.
type testCase interface {
	name() string
	dir() string
	settings() json.RawMessage // in place of the suite's, may be empty
	// outcome runs it, and returns what want.txt should hold, with what is wrong whatever that is.
	outcome(b *Binding) (text string, problems []string, cost Cost)
	// variants runs it in every other way that must make no difference, and calls differs with those that do.
	variants(b *Binding, differs func(variant, want, got string))
}

// OpenSuite reads the vectors below a folder, in the order of their names, and its suite.json if there is one.
func OpenSuite(dir string) (*Suite, error) {
	s := &Suite{Dir: dir}
	text, err := optional(dir, SuiteFile)
	if err != nil {
		return nil, err
	}
	if text != nil {
		var more struct {
			*Suite
			Settings json.RawMessage `json:"settings"`
			Paths    []string        `json:"paths"`
			Headers  []string        `json:"headers"`
		}
		more.Suite = s
		if err := decodeStrict(text, &more); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, SuiteFile), err)
		}
		s.Use = Use{Settings: string(more.Settings), Paths: more.Paths, Headers: more.Headers}
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		var c testCase
		switch d.Name() {
		case "request.json":
			c, err = load(dir, filepath.Dir(path))
		case targetsFile:
			c, err = loadRoute(dir, filepath.Dir(path))
		case textFile:
			c, err = loadText(dir, filepath.Dir(path))
		default:
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Dir(path), err)
		}
		s.cases = append(s.cases, c)
		return nil
	})
	return s, err
}

// Len is how many vectors there are.
func (s *Suite) Len() int { return len(s.cases) }

// Files are the folders of the vectors and the files in them, for who watches them.
func (s *Suite) Files() (files []string) {
	for _, c := range s.cases {
		entries, err := os.ReadDir(c.dir())
		if err != nil {
			continue // the next reading will tell
		}
		files = append(files, c.dir())
		for _, e := range entries {
			files = append(files, filepath.Join(c.dir(), e.Name()))
		}
	}
	return append(files, s.Dir)
}

// LoadVectors reads the vectors of a provider below a folder, in the order of their names.
func LoadVectors(dir string) ([]*Vector, error) {
	s, err := OpenSuite(dir)
	if err != nil {
		return nil, err
	}
	return s.Vectors(), nil
}

// Vectors are those of a provider.
func (s *Suite) Vectors() (vectors []*Vector) {
	for _, c := range s.cases {
		if v, ok := c.(*Vector); ok {
			vectors = append(vectors, v)
		}
	}
	return vectors
}

// TestOptions say how a suite is tested.
type TestOptions struct {
	Run    *regexp.Regexp // only vectors with a matching name; nil: all
	Update bool           // write want.txt
	Native *Native        // the plugin as native code, to run too; may be nil
}

// Tested is what came of a vector.
type Tested struct {
	Name     string
	Cost     Cost
	Failures []Failure // none: it passed
	Updated  bool      // want.txt was written and held something else, or was missing
}

// Failure is one thing that is wrong with a vector.
type Failure struct {
	Where string // in which way it was run, such as "fresh instance"
	Text  string // what is wrong, in a few lines
}

// Test runs each vector on a fresh instance for each call, on an instance that has served all others, after clients that left early,
// and with the upstream's response in other pieces. All must give what want.txt holds.
func (s *Suite) Test(ctx context.Context, h *Host, m Module, o TestOptions) ([]Tested, error) {
	var cases []testCase
	for _, c := range s.cases {
		if o.Run == nil || o.Run.MatchString(c.name()) {
			cases = append(cases, c)
		}
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("no vectors in %s", s.Dir)
	}
	fresh, err := s.bind(ctx, h, Module{Name: m.Name, Wasm: m.Wasm, Fresh: true})
	if err != nil {
		return nil, err
	}
	defer fresh.close()
	used, err := s.bind(ctx, h, m)
	if err != nil {
		return nil, err
	}
	defer used.close()

	tested, texts := make([]Tested, len(cases)), make([]string, len(cases))
	for i, c := range cases {
		if texts[i], err = s.testFresh(ctx, c, fresh, o.Update, &tested[i]); err != nil {
			return nil, err
		}
	}
	if o.Native != nil {
		if err := s.testNative(ctx, h, m.Name, o.Native, cases, texts, tested); err != nil {
			return nil, err
		}
	}
	for round := range 2 {
		for i, c := range cases {
			b, err := used.of(ctx, c)
			if err != nil {
				continue // testFresh has reported it
			}
			text, _, _ := c.outcome(b)
			if round == 0 {
				continue // in the second round the instance has served every other vector
			}
			if text != texts[i] {
				tested[i].fail("instance that has served other requests", "the plugin remembers something of them\n"+Diff(texts[i], text))
			}
			c.variants(b, func(variant, want, got string) { tested[i].fail(variant, Diff(want, got)) })
		}
	}
	return tested, nil
}

// maxFailures is how many failures of a vector are kept: more say the same.
const maxFailures = 3

func (t *Tested) fail(where, text string) {
	if len(t.Failures) < maxFailures {
		t.Failures = append(t.Failures, Failure{where, text})
	}
}

// testFresh compares a vector's outcome with want.txt, and returns it.
func (s *Suite) testFresh(ctx context.Context, c testCase, bindings *bindings, update bool, t *Tested) (text string, err error) {
	t.Name = c.name()
	b, err := bindings.of(ctx, c)
	if err != nil {
		t.fail("settings", err.Error())
		return "", nil
	}
	text, problems, cost := c.outcome(b)
	t.Cost = cost
	const where = "fresh instance"
	for _, p := range problems {
		t.fail(where, p)
	}
	file := filepath.Join(c.dir(), WantFile)
	want, err := os.ReadFile(file)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case err == nil && string(want) == text:
	case update:
		t.Updated = true
		return text, os.WriteFile(file, []byte(text), 0o644)
	case err != nil:
		t.fail(where, "no want.txt; --update writes what comes of it:\n"+indent(excerpt(text, 12)))
	default:
		t.fail(where, "differs from "+file+"\n"+Diff(string(want), text))
	}
	return text, nil
}

// bindings are uses of a plugin with the settings of vectors.
type bindings struct {
	suite  *Suite
	plugin *Plugin
	bound  map[string]*Binding
}

func (s *Suite) bind(ctx context.Context, h *Host, m Module) (*bindings, error) {
	p, err := h.Load(ctx, m)
	if err != nil {
		return nil, err
	}
	return &bindings{s, p, make(map[string]*Binding)}, nil
}

func (b *bindings) close() { b.plugin.Close() }

// of returns the use with a vector's settings.
func (b *bindings) of(ctx context.Context, c testCase) (*Binding, error) {
	use := b.suite.Use
	if own := c.settings(); len(own) > 0 {
		use.Settings = string(own)
	}
	if known := b.bound[use.Settings]; known != nil {
		return known, nil
	}
	bound, err := b.plugin.Bind(ctx, use)
	if err == nil {
		b.bound[use.Settings] = bound
	}
	return bound, err
}

func (v *Vector) name() string              { return v.Name }
func (v *Vector) dir() string               { return v.Dir }
func (v *Vector) settings() json.RawMessage { return v.Settings }

func (v *Vector) outcome(b *Binding) (text string, problems []string, cost Cost) {
	o := v.Outcome(b)
	cost = o.Whole.Cost
	cost.Share = o.Share()
	return o.Text(), o.Problems(), cost
}

const (
	// maxCuts is at how many places a response is cut in two.
	maxCuts = 256
	// maxLeaves is after how many different events a client leaves.
	maxLeaves = 8
)

func (v *Vector) variants(b *Binding, differs func(variant, want, got string)) {
	for _, stream := range []bool{false, true} {
		if stream && !streams(v.Form) {
			break
		}
		want := v.run(b, how{stream: stream})
		check := func(variant string, h how) {
			h.stream = stream
			if got := v.run(b, h); got.text() != want.text() {
				differs(variant, want.text(), got.text())
			}
		}
		size := 0
		for _, a := range v.answers() {
			size = max(size, len(a.Body))
		}
		if size > 1 {
			check("response in pieces of 1 byte", how{pieces: 1})
			check("response in one piece", how{pieces: size})
		}
		if !stream {
			continue
		}
		for _, cut := range spread(size-1, maxCuts) {
			check(fmt.Sprintf("response cut at byte %d", cut), how{cut: cut})
		}
		for _, n := range spread(want.Cost.Reads-1, maxLeaves) {
			left := v.run(b, how{stream: true, leave: n})
			if _, sent, ok := strings.Cut(left.Response, "the client has left\n"); ok && left.Err == errLeft && !strings.Contains(want.Response, sent) {
				differs(fmt.Sprintf("client that leaves after %d events", n), want.Response, sent)
			}
			check(fmt.Sprintf("after a client that left at event %d", n), how{})
		}
	}
}

// text is all of a result that must not depend on how a vector is run.
func (r *Result) text() string { return r.Request + r.Warnings + r.Response }

// spread returns at most n of the numbers 1 to last, evenly spread, with the last one.
func spread(last, n int) (numbers []int) {
	if last <= n {
		n = max(last, 0)
	}
	for i := 1; i <= n; i++ {
		numbers = append(numbers, i*last/n)
	}
	return numbers
}
