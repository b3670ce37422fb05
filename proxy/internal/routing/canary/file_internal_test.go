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

// Whatever the file holds, it is read or refused, and what is read has a meaning.
func FuzzFile(f *testing.F) {
	at := time.Unix(1_800_000_000, 0).UTC()
	f.Add(format(nil))
	f.Add(format([]savedState{{Model: "m", Table: "t", Target: "p/m", Step: 2, Attempts: 9, Errors: 3, Traps: 1}}))
	f.Add(format([]savedState{{Model: "m", Table: "t", RolledBack: &at, Reason: "x"}}))
	f.Add(format([]savedState{{Step: -1}}))
	f.Add([]byte(`{"format":1,"sha256":"","canaries":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		kept, err := parse(data)
		if err != nil {
			return
		}
		for n, k := range kept {
			if n.model != k.Model || k.Step < 0 || k.Errors > k.Attempts || k.Errors < 0 || (k.Reason == "") != (k.RolledBack == nil) {
				t.Errorf("%+v is kept for %+v", k, n)
			}
			again, err := parse(format([]savedState{*k}))
			if err != nil || len(again) != 1 {
				t.Errorf("%+v does not survive: %v", k, err)
			}
		}
	})
}

func TestImpossibleStatesAreRefused(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for _, states := range [][]savedState{
		{{Step: -1}}, {{Attempts: -1}}, {{Errors: -1}}, {{Traps: -1}}, {{Attempts: 1, Errors: 2}}, {{Reason: "x"}}, {{RolledBack: &at}},
		{{Model: "m", Table: "t"}, {Model: "m", Table: "t", Step: 1}},
	} {
		if kept, err := parse(format(states)); err == nil {
			t.Errorf("%+v was read as %+v", states, kept)
		}
	}
	if _, err := parse(bytes.Replace(format(nil), []byte("null"), []byte("[{\"x\":1}]"), 1)); err == nil {
		t.Error("a member that is unknown was ignored")
	}
}

func TestOneBitIsNoticed(t *testing.T) {
	whole := format([]savedState{{Model: "m", Table: "t", Target: "p/m", Step: 2, Attempts: 9, Errors: 3, Traps: 1}})
	for i := range whole[:len(whole)-1] { // the last one ends the line
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1
		if kept, err := parse(damaged); err == nil {
			t.Errorf("byte %d: read as %+v", i, kept)
		}
	}
}

// crashDir is where the process lives that TestKilledWhileWriting kills.
const crashDir = "SLUICE_CANARY_CRASH_DIR"

// TestKilledWhileWriting kills a process that does nothing but roll canaries back, one after the other, and says so when one is kept.
// What it said last is kept, or what it had begun after that.
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
				_ = p.Process.Kill() // it goes on for as long as that takes; the lines until then are read
			}
		}
		_ = p.Wait()
		data, err := os.ReadFile(filepath.Join(dir, "canary.json"))
		if err != nil {
			t.Fatal(err)
		}
		kept, err := parse(data)
		if err != nil || len(kept) != 1 {
			t.Fatalf("after line %d: %v, %d canaries in %q", last, err, len(kept), data)
		}
		for _, k := range kept {
			if k.Target != fmt.Sprint(last+1) && (k.Target != fmt.Sprint(last) || k.Reason == "") {
				t.Errorf("after line %d, kept is %+v", last, k)
			}
		}
	}
}
