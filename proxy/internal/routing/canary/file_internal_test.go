package canary

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// FuzzFile checks that parse either rejects a file or returns possible states, which can be saved again.
func FuzzFile(f *testing.F) {
	at := time.Unix(1_800_000_000, 0).UTC()
	f.Add(format(nil))
	f.Add(format([]savedState{{Model: "m", Table: "t", Target: "p/m", Step: 2, Attempts: 9, Errors: 3, Traps: 1}}))
	f.Add(format([]savedState{{Model: "m", Table: "t", RolledBack: &at, Reason: "x"}}))
	f.Add(format([]savedState{{Step: -1}}))
	f.Add([]byte(`{"format":1,"sha256":"","canaries":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		states, err := parse(data)
		if err != nil {
			return
		}
		for k, s := range states {
			if k.model != s.Model || s.Step < 0 || s.Errors > s.Attempts || s.Errors < 0 || (s.Reason == "") != (s.RolledBack == nil) {
				t.Errorf("%+v: impossible state %+v", k, s)
			}
			again, err := parse(format([]savedState{*s}))
			if err != nil || len(again) != 1 {
				t.Errorf("%+v is rejected after it was saved: %v", s, err)
			}
		}
	})
}

func TestRejectsImpossibleStates(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for _, states := range [][]savedState{
		{{Step: -1}}, {{Attempts: -1}}, {{Errors: -1}}, {{Traps: -1}}, {{Attempts: 1, Errors: 2}}, {{Reason: "x"}}, {{RolledBack: &at}},
		{{Model: "m", Table: "t"}, {Model: "m", Table: "t", Step: 1}},
	} {
		if parsed, err := parse(format(states)); err == nil {
			t.Errorf("%+v was parsed as %+v", states, parsed)
		}
	}
	if _, err := parse(bytes.Replace(format(nil), []byte("null"), []byte("[{\"x\":1}]"), 1)); err == nil {
		t.Error("an unknown member was ignored")
	}
}

func TestDetectsFlippedBit(t *testing.T) {
	whole := format([]savedState{{Model: "m", Table: "t", Target: "p/m", Step: 2, Attempts: 9, Errors: 3, Traps: 1}})
	for i := range whole[:len(whole)-1] { // all but the final newline
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1
		if parsed, err := parse(damaged); err == nil {
			t.Errorf("byte %d: parsed as %+v", i, parsed)
		}
	}
}

// crashDir is the environment variable with the state folder of the process that TestKilledWhileWriting kills.
const crashDir = "SLUICE_CANARY_CRASH_DIR"

// TestKilledWhileWriting kills a process that rolls back one canary after another, and prints the number of each whose
// state it has saved. The file must then hold the state of the last number printed, or of the next one.
func TestKilledWhileWriting(t *testing.T) {
	if dir := os.Getenv(crashDir); dir != "" {
		for i := 0; ; i++ {
			s := New(Options{Dir: func() (string, error) { return dir, nil }})
			c := s.Get("m", Settings{Target: fmt.Sprint(i), Steps: []float64{1}, Every: time.Hour, MaxTraps: 1})
			s.Use([]*Canary{c})
			c.Record(Trapped, time.Now())
			s.Close()
			fmt.Println(i)
		}
	}
	if testing.Short() {
		t.Skip("starts a process several times")
	}
	for round := range 8 {
		dir := t.TempDir()
		p := exec.Command(os.Args[0], "-test.run", "^TestKilledWhileWriting$")
		p.Env = append(os.Environ(), crashDir+"="+dir)
		out, err := p.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		last := -1
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, err := fmt.Sscan(lines.Text(), &last); err == nil && last == 3*round {
				_ = p.Process.Kill() // the process may print more lines before it ends, which are read, too
			}
		}
		_ = p.Wait()
		data, err := os.ReadFile(filepath.Join(dir, "canary.json"))
		if err != nil {
			t.Fatal(err)
		}
		states, err := parse(data)
		if err != nil || len(states) != 1 {
			t.Fatalf("after line %d: %v, %d canaries in %q", last, err, len(states), data)
		}
		for _, s := range states {
			if s.Target != fmt.Sprint(last+1) && (s.Target != fmt.Sprint(last) || s.Reason == "") {
				t.Errorf("after line %d, the saved state is %+v", last, s)
			}
		}
	}
}
