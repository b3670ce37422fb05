package statedir_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/statedir"
)

// holdVariable names a folder. With it, the test binary locks the folder and runs until its standard input ends.
const holdVariable = "SLUICE_TEST_HOLD_STATE"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdVariable); path != "" {
		if _, err := statedir.Open(path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("locked")
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestFindsFolder(t *testing.T) {
	if filepath.Separator != '/' {
		t.Skip("the paths are those of Unix")
	}
	for _, c := range []struct {
		name, explicit string
		env            map[string]string
		want           string
	}{
		{"the configured one overrides all", "/var/journal", map[string]string{"STATE_DIRECTORY": "/var/lib/sluice", "HOME": "/h"}, "/var/journal"},
		{"systemd's", "", map[string]string{"STATE_DIRECTORY": "/var/lib/sluice", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/var/lib/sluice"},
		{"the first of systemd's", "", map[string]string{"STATE_DIRECTORY": "/var/lib/a:/var/lib/b"}, "/var/lib/a"},
		{"XDG's", "", map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/sluice"},
		{"a relative path of XDG is ignored", "", map[string]string{"XDG_STATE_HOME": "x", "HOME": "/h"}, "/h/.local/state/sluice"},
		{"the home folder's", "", map[string]string{"HOME": "/h"}, "/h/.local/state/sluice"},
		{"none", "", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := statedir.Find(c.explicit, func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
			if got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("got %q, error %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestCreatesPrivateFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := statedir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	sub, err := d.Sub("journal")
	if err != nil || sub != filepath.Join(path, "journal") {
		t.Fatal(sub, err)
	}
	if again, err := d.Sub("journal"); err != nil || again != sub {
		t.Error(again, err)
	}
	for _, made := range []string{path, sub} {
		if info, err := os.Stat(made); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 && filepath.Separator == '/' {
			t.Errorf("%s: got %v, error %v", made, info, err)
		}
	}
}

func TestRejectsFolderWritableByOthers(t *testing.T) {
	if filepath.Separator != '/' {
		t.Skip("this system has no permission bits")
	}
	for _, mode := range []os.FileMode{0o720, 0o702, 0o777} {
		path := t.TempDir()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := statedir.Open(path); err == nil || !strings.Contains(err.Error(), "writable by other users") {
			t.Errorf("mode %04o: got error %v", mode, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := statedir.Open(file); err == nil {
		t.Error("no error for a file in place of the folder")
	}
}

func TestLocksWithinProcess(t *testing.T) {
	path := t.TempDir()
	d, err := statedir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := statedir.Open(path); !errors.As(err, new(*statedir.InUseError)) {
		t.Errorf("second Open: got %v, want an InUseError", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := statedir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestSecondProcessGetsHolderName(t *testing.T) {
	path := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), holdVariable+"="+path)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatal(line, err)
	}
	if process, held, err := statedir.Holder(path); err != nil || !held || process != fmt.Sprintf("%s (process %d)", filepath.Base(exe), c.Process.Pid) {
		t.Errorf("Holder returned %q, %v, %v", process, held, err)
	}
	_, err = statedir.Open(path)
	if e, ok := errors.AsType[*statedir.InUseError](err); !ok || e.Process != fmt.Sprintf("%s (process %d)", filepath.Base(exe), c.Process.Pid) {
		t.Fatalf("the second process got %v, want an InUseError with the name of the first", err)
	}
	// A process that is killed leaves no lock behind.
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if process, held, err := statedir.Holder(path); err != nil || held {
		t.Errorf("Holder returned %q, %v after the process was killed", process, err)
	}
	d, err := statedir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
}

// TestHolderDoesNotBlockOpen opens a folder repeatedly while another goroutine calls Holder.
func TestHolderDoesNotBlockOpen(t *testing.T) {
	path := t.TempDir()
	if _, held, err := statedir.Holder(filepath.Join(path, "none")); held || err != nil {
		t.Errorf("a folder that does not exist: %v %v", held, err)
	}
	stop := make(chan struct{})
	var polling sync.WaitGroup
	defer polling.Wait()
	defer close(stop)
	polling.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, _, err := statedir.Holder(path); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 30 {
		d, err := statedir.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, held, err := statedir.Holder(path); !held || err != nil {
			t.Fatal(held, err)
		}
		d.Close()
	}
}

func TestLazyLocksOnFirstUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	first, second := statedir.Lazy{Path: path}, statedir.Lazy{Path: path}
	if _, err := os.Stat(path); err == nil {
		t.Error("the folder was created before its first use")
	}
	for range 2 {
		if sub, err := first.Sub("canary"); err != nil || sub != filepath.Join(path, "canary") {
			t.Errorf("Sub returned %q, %v", sub, err)
		}
	}
	var inUse *statedir.InUseError
	if _, err := second.Sub("canary"); !errors.As(err, &inUse) {
		t.Errorf("second Lazy: got %v, want an InUseError", err)
	}
	first.Close()
	first.Close()
	if _, err := second.Sub("canary"); err != nil {
		t.Errorf("after the first Lazy was closed: %v", err)
	}
	second.Close()
	if _, err := new(statedir.Lazy).Sub("canary"); err == nil {
		t.Error("no error without a path")
	}
}

func TestIdentityPersists(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	identity := func() string {
		t.Helper()
		l := statedir.Lazy{Path: path}
		defer l.Close()
		id, err := l.Identity()
		if err != nil || len(id) < 20 {
			t.Fatalf("Identity returned %q, %v", id, err)
		}
		return id
	}
	first := identity()
	if again := identity(); again != first {
		t.Errorf("identity changed from %q to %q", first, again)
	}
	for _, text := range []string{"", "short", strings.Repeat("!", len(first)), strings.Repeat("A", 1<<20)} {
		if err := os.WriteFile(filepath.Join(path, "identity"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if created := identity(); created == first || identity() != created {
			t.Errorf("after damaging the file to %.20q: identity %q, then %q", text, created, identity())
		}
	}
	none := statedir.Lazy{}
	if id, err := none.Identity(); err == nil {
		t.Errorf("identity %q without a folder, want an error", id)
	}
}
