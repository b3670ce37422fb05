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

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
)

// SuiteFile is the file at the root of a folder of vectors that names their plugin; see Suite. Recordings have one.
const SuiteFile = "suite.json"

// Suite is a folder of vectors, and the plugin that they are for.
type Suite struct {
	Dir    string `json:"-"`
	Plugin string `json:"plugin"` // name of the plugin
	Module string `json:"module"` // file of the module, relative to Dir; empty for a bundled plugin, or one that the caller knows
	Use    Use    `json:"-"`

	cases []testCase
}

// testCase is a folder with an input and its expected outcome: a vector of a provider, a route of a router, or a text
// of a filter.
type testCase interface {
	name() string
	dir() string
	settings() json.RawMessage // settings that replace the suite's; empty means the suite's
	outcome(b *Binding) outcome
	// variants runs the test case in every way that must give the same outcome, and calls differs for each that gives
	// another one.
	variants(b *Binding, differs func(variant, want, got string))
}

// outcome is the result of running a test case.
type outcome struct {
	text     string   // contents of want.txt
	problems []string // errors whatever want.txt contains
	mistakes []string // see Result.Mistakes
	failed   string   // the error that the client receives, "" if there is none
	failure  error    // the plugin itself failed, which --update does not write to want.txt; nil if it did not
	cost     Cost
}

// OpenSuite reads the vectors below a folder, in the order of their names, and its suite.json if there is one.
func OpenSuite(dir string) (*Suite, error) {
	s := &Suite{Dir: dir}
	text, err := readOptional(dir, SuiteFile)
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
		if err != nil || d.IsDir() || caseLoaders[d.Name()] == nil {
			return err
		}
		c, err := caseLoaders[d.Name()](dir, filepath.Dir(path))
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Dir(path), err)
		}
		s.cases = append(s.cases, c)
		return nil
	})
	return s, err
}

// caseLoaders read a test case from its folder. The key is the file with the input; base is the folder of all test cases.
var caseLoaders = map[string]func(base, dir string) (testCase, error){
	"request.json": func(base, dir string) (testCase, error) { return loadVector(base, dir) },
	targetsFile:    func(base, dir string) (testCase, error) { return loadRoute(base, dir) },
	textFile:       func(base, dir string) (testCase, error) { return loadText(base, dir) },
	listFile:       func(base, dir string) (testCase, error) { return loadList(base, dir) },
}

// loadCase reads the test case in a folder.
func loadCase(base, dir string) (testCase, error) {
	for file, load := range caseLoaders {
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			return load(base, dir)
		}
	}
	return nil, fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
}

// NewSuite returns a suite of vectors that are not in files.
func NewSuite(u Use, vectors ...*Vector) *Suite {
	s := &Suite{Use: u}
	for _, v := range vectors {
		s.cases = append(s.cases, v)
	}
	return s
}

// Len returns the number of vectors.
func (s *Suite) Len() int { return len(s.cases) }

// Files returns the folders of the vectors and the files in them, so that they can be watched.
func (s *Suite) Files() (files []string) {
	for _, c := range s.cases {
		entries, err := os.ReadDir(c.dir())
		if err != nil {
			continue // opening the suite again will report the error
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

// Vectors returns the vectors of a provider.
func (s *Suite) Vectors() (vectors []*Vector) {
	for _, c := range s.cases {
		if v, ok := c.(*Vector); ok {
			vectors = append(vectors, v)
		}
	}
	return vectors
}

// TestOptions are the options of Suite.Test.
type TestOptions struct {
	Run    *regexp.Regexp // runs only vectors with a matching name; nil runs all
	Update bool           // writes want.txt
	Native *Native        // the plugin as native code, to run as well; may be nil
}

// Tested is the result of testing a vector.
type Tested struct {
	Name     string
	Cost     Cost
	Failures []Failure // empty if the vector passed
	Log      []string  // what the plugin logged and printed on fresh instances, and the stacks of its traps
	Warnings []string  // what the contract accepts, but the author most likely did not mean; see Result.Mistakes
	Updated  bool      // want.txt was written, because it differed or was missing
}

// Failure is one failure of a vector.
type Failure struct {
	Where string // the way in which the vector was run, such as "fresh instance"
	Text  string // description in a few lines
}

// Test runs each vector with a fresh instance for each call, on an instance that has served all other vectors, after
// clients that disconnected, and with the upstream's response split in other ways. All must give the outcome in
// want.txt.
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
	h.TakeLog()
	for i, c := range cases {
		if texts[i], err = s.testFresh(ctx, c, fresh, o.Update, &tested[i]); err != nil {
			return nil, err
		}
		tested[i].Log = h.TakeLog()
	}
	if o.Native != nil {
		if err := s.testNative(ctx, h, m.Name, o.Native, cases, texts, tested); err != nil {
			return nil, err
		}
	}
	for round := range 2 {
		for i, c := range cases {
			b, err := used.bindFor(ctx, c)
			if err != nil {
				continue // testFresh has reported it
			}
			text := c.outcome(b).text
			if round == 0 {
				continue // only in the second round has the instance served every other vector
			}
			if text != texts[i] {
				tested[i].fail("instance that has served other requests", "the plugin keeps state between requests\n"+Diff(texts[i], text))
			}
			c.variants(b, func(variant, want, got string) { tested[i].fail(variant, Diff(want, got)) })
		}
	}
	return tested, nil
}

// maxFailures limits the failures reported for a vector. Further ones usually have the same cause.
const maxFailures = 3

func (t *Tested) fail(where, text string) {
	if len(t.Failures) < maxFailures {
		t.Failures = append(t.Failures, Failure{where, text})
	}
}

// testFresh compares a vector's outcome with want.txt, and returns it.
func (s *Suite) testFresh(ctx context.Context, c testCase, bindings *bindings, update bool, t *Tested) (text string, err error) {
	t.Name = c.name()
	b, err := bindings.bindFor(ctx, c)
	if err != nil {
		t.fail("settings", err.Error())
		return "", nil
	}
	o := c.outcome(b)
	text, t.Cost, t.Warnings = o.text, o.cost, o.mistakes
	const where = "fresh instance"
	for _, p := range o.problems {
		t.fail(where, p)
	}
	file := filepath.Join(c.dir(), WantFile)
	want, err := os.ReadFile(file)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case err == nil && string(want) == text:
	case update && o.failure != nil:
		t.fail(where, "the plugin failed, so want.txt is not written: "+o.failure.Error())
	case update && len(o.problems) > 0: // want.txt must not hide them
	case update:
		t.Updated = true
		if o.failed != "" {
			t.Warnings = append(t.Warnings, "want.txt has an error for the client: "+o.failed)
		}
		return text, os.WriteFile(file, []byte(text), 0o644)
	case err != nil:
		t.fail(where, "no want.txt; --update writes this outcome:\n"+indent(excerpt(text, 12)))
	default:
		t.fail(where, "differs from "+file+"\n"+Diff(string(want), text))
	}
	return text, nil
}

// bindings holds the bindings of a plugin with the settings of vectors.
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

// bindFor returns the binding with a test case's settings.
func (b *bindings) bindFor(ctx context.Context, c testCase) (*Binding, error) {
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

func (v *Vector) outcome(b *Binding) outcome {
	o := v.Outcome(b)
	cost := o.Whole.Cost
	cost.Share = o.Share()
	mistakes := appendNew(appendNew(nil, o.Whole.Mistakes...), o.Stream.Mistakes...)
	return outcome{text: o.Text(), problems: o.Problems(), mistakes: mistakes, failed: o.Whole.Failed, failure: o.failure(), cost: cost}
}

const (
	// maxCuts limits the offsets at which a response is split in two.
	maxCuts = 256
	// maxLeaves limits the events after which a client disconnects.
	maxLeaves = 8
)

func (v *Vector) variants(b *Binding, differs func(variant, want, got string)) {
	for _, stream := range []bool{false, true} {
		if stream && !streams(v.Form) {
			break
		}
		want := v.run(b, runMode{stream: stream})
		check := func(variant string, h runMode) {
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
			check("response in pieces of 1 byte", runMode{pieces: 1})
			check("response in one piece", runMode{pieces: size})
		}
		if !stream {
			continue
		}
		for _, cut := range spread(size-1, maxCuts) {
			check(fmt.Sprintf("response cut at byte %d", cut), runMode{cut: cut})
		}
		for _, n := range spread(want.Cost.Reads-1, maxLeaves) {
			left := v.run(b, runMode{stream: true, leaveAfter: n})
			if _, sent, ok := strings.Cut(left.Response, "the client has left\n"); ok && left.Err == errClientLeft && !strings.Contains(want.Response, sent) {
				differs(fmt.Sprintf("client that leaves after %d events", n), want.Response, sent)
			}
			check(fmt.Sprintf("after a client that left at event %d", n), runMode{})
		}
	}
}

// callFailure returns err if the plugin itself failed, and otherwise nil.
func callFailure(err error) error {
	if failed, ok := errors.AsType[*plugin.CallError](err); ok {
		return failed
	}
	return nil
}

// text returns the part of a result that must not depend on how a vector is run.
func (r *Result) text() string { return r.Request + r.Warnings + r.Response }

// spread returns at most n of the numbers 1 to last, evenly spread and including last.
func spread(last, n int) (numbers []int) {
	if last <= n {
		n = max(last, 0)
	}
	for i := 1; i <= n; i++ {
		numbers = append(numbers, i*last/n)
	}
	return numbers
}
