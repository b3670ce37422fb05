// Package mutation_test checks that tests notice defects: it applies small edits to the code, one at a time, and runs
// the tests that must then fail.
package mutation_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var selected = flag.String("mutate", "", "run the edits whose file or description matches this regular expression")

// edit is a defect: one change of a file that is not a test.
type edit struct {
	what     string // the defect
	file     string // relative to the root of the repository
	old, new string // old is in the file exactly once
	tests    string // tests that must fail, separated by spaces; one of them is enough
	in       string // folder of the tests, if it is not the file's
	long     bool   // the tests skip themselves under -short
}

// root is the root of the repository, relative to this folder.
const root = "../../../.."

func (e *edit) folder() string {
	if e.in != "" {
		return e.in
	}
	return path.Dir(e.file)
}

// apply returns the edited file.
func (e *edit) apply() ([]byte, error) {
	src, err := os.ReadFile(filepath.Join(root, e.file))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(src, []byte(e.old)); n != 1 {
		return nil, fmt.Errorf("the file has the old text %d times, want once: the list of edits is out of date", n)
	}
	return bytes.Replace(src, []byte(e.old), []byte(e.new), 1), nil
}

// testSources returns the source of all tests in a folder.
func testSources(folder string) (string, error) {
	names, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		all.Write(src)
	}
	return all.String(), nil
}

// TestEditsApply checks the list of edits without running any tests.
func TestEditsApply(t *testing.T) {
	for i := range edits {
		e := &edits[i]
		edited, err := e.apply()
		if err == nil {
			_, err = format.Source(edited)
		}
		if err != nil {
			t.Errorf("%s: %s: %v", e.file, e.what, err)
		}
		src, err := testSources(e.folder())
		if err != nil {
			t.Fatal(err)
		}
		if e.tests == "" || e.old == e.new {
			t.Errorf("%s: %s: no tests or no change", e.file, e.what)
		}
		for _, name := range strings.Fields(e.tests) {
			if !strings.Contains(src, "func "+name+"(") {
				t.Errorf("%s: %s: there is no %s in %s", e.file, e.what, name, e.folder())
			}
		}
	}
}

// suite is the tests of a folder that are run together.
type suite struct {
	folder string
	long   bool
}

// run runs tests of the suite. overlay is the name of a file for go's flag -overlay, or "".
func (s suite) run(t *testing.T, tests, overlay string, flags ...string) (output string, passed bool) {
	t.Helper()
	args := append([]string{"test", "-count=1", "-vet=off", "-timeout=5m", "-run=^(" + strings.Join(strings.Fields(tests), "|") + ")$"}, flags...)
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	if !s.long {
		args = append(args, "-short")
	}
	args = append(args, "./"+s.folder)
	src, err := testSources(s.folder)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(src, `"pgregory.net/rapid"`) {
		args = append(args, "-rapid.nofailfile") // leaves no files in the tree
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatal(err)
	}
	return string(out), err == nil
}

var (
	passLine = regexp.MustCompile(`(?m)^--- PASS: (\S+)`)
	failLine = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	timedOut = regexp.MustCompile(`panic: test timed out[^\n]*\n\s*running tests:\s*(\S+)`)
)

// caughtBy returns the test that has failed according to go test's output, or "" if none has run and failed.
func caughtBy(output string) string {
	if m := timedOut.FindStringSubmatch(output); m != nil {
		return m[1] + " (timeout)"
	}
	if m := failLine.FindStringSubmatch(output); m != nil {
		return m[1]
	}
	if strings.HasPrefix(output, "panic: ") || strings.Contains(output, "\npanic: ") || strings.Contains(output, "\nfatal error: ") {
		return "a panic"
	}
	return ""
}

func TestCaughtBy(t *testing.T) {
	for _, tt := range []struct{ output, want string }{
		{"--- FAIL: TestA (0.00s)\n    a_test.go:1: no\n--- FAIL: TestB (0.00s)\nFAIL\n", "TestA"},
		{"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/case (0.00s)\npanic: no [recovered]\nFAIL\n", "TestA"},
		{"panic: no\n\ngoroutine 7 [running]:\nFAIL\n", "a panic"},
		{"panic: test timed out after 5m0s\n\trunning tests:\n\t\tTestA (4m59s)\n", "TestA (timeout)"},
		{"# example/a\na.go:1:2: declared and not used: x\nFAIL\texample/a [build failed]\n", ""},
	} {
		if got := caughtBy(tt.output); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.output, got, tt.want)
		}
	}
}

// TestMutations applies each selected edit to a copy of its file, which go test reads in its place (flag -overlay), and
// runs the edit's tests. The tree is not changed. Without the edit the tests must pass.
func TestMutations(t *testing.T) {
	if *selected == "" {
		t.Skip("runs for minutes: run make mutate")
	}
	match, err := regexp.Compile(*selected)
	if err != nil {
		t.Fatal(err)
	}
	chosen := slices.DeleteFunc(slices.Clone(edits), func(e edit) bool { return !match.MatchString(e.file) && !match.MatchString(e.what) })
	if len(chosen) == 0 {
		t.Fatalf("no edit matches %q", *selected)
	}
	tests := make(map[suite]string)
	for _, e := range chosen {
		s := suite{e.folder(), e.long}
		tests[s] += " " + e.tests
	}
	baseline := make(map[suite]string) // the tests of a suite that fail without an edit; "" for none
	caught := 0
	for i, e := range chosen {
		s := suite{e.folder(), e.long}
		if _, known := baseline[s]; !known {
			output, _ := s.run(t, tests[s], "", "-v")
			baseline[s] = notPassed(tests[s], output)
		}
		result := baseline[s]
		if result == "" {
			var ok bool
			if result, ok = runEdited(t, s, &e); ok {
				caught++
			} else {
				t.Fail()
			}
		} else {
			result = "the tests do not pass without the edit: " + result
			t.Fail()
		}
		fmt.Printf("%2d/%d %s: %s: %s\n", i+1, len(chosen), e.file, e.what, result)
	}
	fmt.Printf("%d of %d edits caught\n", caught, len(chosen))
}

// notPassed returns those of the tests that have not passed according to go test's output.
func notPassed(tests, output string) string {
	passed := make(map[string]bool)
	for _, m := range passLine.FindAllStringSubmatch(output, -1) {
		passed[m[1]] = true
	}
	return strings.Join(slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(strings.Fields(tests)))), func(name string) bool { return passed[name] }), " ")
}

// runEdited runs the tests of an edit.
func runEdited(t *testing.T, s suite, e *edit) (result string, caught bool) {
	t.Helper()
	edited, err := e.apply()
	if err != nil {
		return err.Error(), false
	}
	dir := t.TempDir()
	file, err := filepath.Abs(filepath.Join(root, e.file))
	if err != nil {
		t.Fatal(err)
	}
	replacement, overlay := filepath.Join(dir, path.Base(e.file)), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {file: replacement}})
	if err := errors.Join(err, os.WriteFile(replacement, edited, 0o600), os.WriteFile(overlay, list, 0o600)); err != nil {
		t.Fatal(err)
	}
	output, passed := s.run(t, e.tests, overlay, "-failfast")
	switch by := caughtBy(output); {
	case passed:
		return "SURVIVED " + e.tests, false
	case by == "":
		return "the tests did not run:\n" + output, false
	default:
		return "caught by " + by, true
	}
}
