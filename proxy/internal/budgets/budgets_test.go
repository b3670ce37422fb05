package budgets_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/budgets"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/statedir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventTimeout bounds every wait for an event. It only passes when a test fails.
const eventTimeout = time.Minute

func change(t testing.TB, kind, name, usd string) *budgets.Change {
	t.Helper()
	c, err := budgets.NewChange(kind, name, "total", usd, "because")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// gateway is a state folder in use, with an Inbox.
type gateway struct {
	dir  string
	made chan budgets.Change // the applied changes
	stop func()
}

func serve(t *testing.T, dir string, apply budgets.Apply) *gateway {
	t.Helper()
	state, err := statedir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := state.Sub(budgets.Folder)
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{dir: dir, made: make(chan budgets.Change, 1000)}
	inbox := budgets.Open(folder, func(c *budgets.Change) (string, error) {
		text, err := apply(c)
		if err == nil {
			g.made <- *c
		}
		return text, err
	}, slog.New(slog.DiscardHandler))
	g.stop = sync.OnceFunc(func() {
		inbox.Close()
		state.Close()
	})
	t.Cleanup(g.stop)
	return g
}

// applyOK is an Apply that succeeds.
func applyOK(c *budgets.Change) (string, error) { return "raised " + c.Scope.String(), nil }

func request(t *testing.T, dir string, c *budgets.Change) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventTimeout)
	defer cancel()
	return budgets.Request(ctx, dir, c, time.Time{})
}

// files returns the names of the files in the folder of changes.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, budgets.Folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestChangeIsApplied(t *testing.T) {
	dir := t.TempDir()
	g := serve(t, dir, applyOK)
	want := change(t, "team", "research", "-12.5")
	text, err := request(t, dir, want)
	if err != nil || text != "raised team research" {
		t.Fatal(text, err)
	}
	if got := <-g.made; got != *want {
		t.Errorf("got %+v, want %+v", got, *want)
	}
	g.stop()
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("left in the folder: %v", left)
	}
}

func TestRejectedChangeReportsReason(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until the folder has not changed for a while")
	}
	dir := t.TempDir()
	serve(t, dir, func(*budgets.Change) (string, error) { return "", errors.New("key a has no budget per total") })
	if text, err := request(t, dir, change(t, "key", "a", "1")); err == nil || err.Error() != "key a has no budget per total" {
		t.Errorf("got %q, error %v", text, err)
	}
}

func TestChangeWaitsForGateway(t *testing.T) {
	dir := t.TempDir()
	c := change(t, "key", "a", "")
	text, err := request(t, dir, c)
	if err != nil || text != "no gateway is running: the change is made when one starts with "+dir {
		t.Fatal(text, err)
	}
	pending, err := budgets.Waiting(dir)
	if err != nil || len(pending) != 1 || *pending[0] != *c {
		t.Fatal(pending, err)
	}
	if info, err := os.Stat(filepath.Join(dir, budgets.Folder, c.ID+".json")); err != nil || info.Mode().Perm() != 0o600 && filepath.Separator == '/' {
		t.Errorf("got file %v, error %v, want mode 0600", info, err)
	}
	if got := <-serve(t, dir, applyOK).made; got != *c {
		t.Errorf("got %+v, want %+v", got, *c)
	}
}

// TestChangeIsRetried applies a change that fails with ErrLater twice.
func TestChangeIsRetried(t *testing.T) {
	dir := t.TempDir()
	if testing.Short() {
		t.Skip("retries after a second, twice")
	}
	failures := 2
	g := serve(t, dir, func(c *budgets.Change) (string, error) {
		if failures--; failures >= 0 {
			return "", fmt.Errorf("%w: the store is down", budgets.ErrLater)
		}
		return applyOK(c)
	})
	if _, err := request(t, dir, change(t, "key", "a", "1")); err != nil {
		t.Error(err)
	}
	if len(g.made) != 1 {
		t.Errorf("applied %d times, want once", len(g.made))
	}
}

// TestChangeSurvivesCrash starts a gateway after another one was killed between claiming and applying a change.
func TestChangeSurvivesCrash(t *testing.T) {
	dir := t.TempDir()
	c := change(t, "key", "a", "1")
	if err := budgets.Send(dir, c); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, budgets.Folder, c.ID)
	if err := os.Rename(name+".json", name+".claimed"); err != nil {
		t.Fatal(err)
	}
	g := serve(t, dir, applyOK)
	ctx, cancel := context.WithTimeout(t.Context(), eventTimeout)
	defer cancel()
	if r, err := budgets.Await(ctx, dir, c.ID); err != nil || !r.Made {
		t.Errorf("got receipt %+v, error %v", r, err)
	}
	if len(g.made) != 1 {
		t.Errorf("applied %d times, want once", len(g.made))
	}
}

// TestChangeIsWithdrawn sends a change to a gateway that does not claim it, as if it hung.
func TestChangeIsWithdrawn(t *testing.T) {
	dir := t.TempDir()
	state, err := statedir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := budgets.Request(ctx, dir, change(t, "key", "a", "1"), time.Time{}); err == nil || !strings.Contains(err.Error(), "withdrawn") {
		t.Errorf("got error %v, want that the change was withdrawn", err)
	}
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("left in the folder: %v", left)
	}
}

// TestForeignFiles checks that files that no command has written are rejected or ignored.
func TestForeignFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until the folder has not changed for a while")
	}
	dir := t.TempDir()
	folder := filepath.Join(dir, budgets.Folder)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const valid = `{"id":"00000000000000ff","scope":"key","name":"a","per":"total","raise_usd":1,"reason":"x"}`
	write(secret, valid)
	for id, text := range map[string]string{
		"0000000000000001": "", "0000000000000002": "{", "0000000000000003": valid, // has another ID
		"0000000000000004": strings.Repeat(" ", 1<<20) + valid, "0000000000000005": "null",
	} {
		write(filepath.Join(folder, id+".json"), text)
	}
	if err := os.Mkdir(filepath.Join(folder, "0000000000000006.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	rejected := 6
	if os.Symlink(secret, filepath.Join(folder, "00000000000000ff.json")) == nil {
		rejected++
	}
	write(filepath.Join(folder, "readme"), "not a change")
	g := serve(t, dir, applyOK)
	// The oldest changes are applied first, so all others have been handled when this one has.
	if _, err := request(t, dir, change(t, "key", "b", "1")); err != nil {
		t.Fatal(err)
	}
	g.stop()
	if len(g.made) != 1 || (<-g.made).Scope.Name != "b" {
		t.Error("a foreign file was applied as a change")
	}
	receipts := 0
	for _, name := range files(t, dir) {
		switch {
		case name == "readme":
		case strings.HasSuffix(name, ".receipt"):
			receipts++
		default:
			t.Errorf("%s was not removed", name)
		}
	}
	if receipts != rejected {
		t.Errorf("got %d receipts, want %d", receipts, rejected)
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != valid {
		t.Errorf("the target of the symbolic link has changed: %q, error %v", data, err)
	}
}

// TestConcurrentCommands sends many changes at the same time; each is applied once.
func TestConcurrentCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until the folder has not changed for a while")
	}
	dir := t.TempDir()
	g := serve(t, dir, applyOK)
	var all sync.WaitGroup
	for n := range 20 {
		c := change(t, "key", fmt.Sprint(n), "1")
		all.Go(func() {
			if text, err := request(t, dir, c); err != nil || text != "raised "+c.Scope.String() {
				t.Error(text, err)
			}
		})
	}
	all.Wait()
	if len(g.made) != 20 {
		t.Errorf("%d changes were applied, want 20", len(g.made))
	}
}

func TestInvalidChanges(t *testing.T) {
	for _, c := range []struct{ kind, name, per, usd, reason, want string }{
		{"user", "a", "day", "1", "x", `invalid scope "user": want key, team, model or provider`},
		{"key", "", "day", "1", "x", "invalid name"},
		{"key", "a", "year", "1", "x", `invalid period "year": want minute, hour, day, week, month or total`},
		{"key", "a", "day", "0", "x", `invalid amount "0": want US dollars, such as 50 or 0.5`},
		{"key", "a", "day", "$5", "x", `invalid amount "$5": want US dollars, such as 50 or 0.5`},
		{"key", "a", "day", "9000001", "x", "invalid amount: want at most 9000000 US dollars"},
		{"key", "a", "day", "-9000001", "x", "invalid amount: want at most 9000000 US dollars"},
		{"key", "a", "day", "1", " ", "a change needs a reason"},
		{"key", "a", "day", "1", "two\nlines", "invalid reason: want one line of at most 500 bytes"},
		{"key", "a", "day", "1", strings.Repeat("x", 501), "invalid reason: want one line of at most 500 bytes"},
	} {
		if _, err := budgets.NewChange(c.kind, c.name, c.per, c.usd, c.reason); err == nil || err.Error() != c.want {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

// TestMissingStateFolder sends a change as another user would, or before the gateway's first start.
func TestMissingStateFolder(t *testing.T) {
	if _, err := request(t, filepath.Join(t.TempDir(), "none"), change(t, "key", "a", "1")); err == nil || !strings.Contains(err.Error(), "there is no state folder") {
		t.Errorf("got error %v", err)
	}
}

func TestHistory(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 5e8, time.UTC)
	a := spend.Scope{Kind: spend.Key, Name: "a"}
	made := []spend.Adjustment{
		{Scope: a, Per: config.PerDay, At: at.Add(time.Hour), Credit: -5e8, Reason: "too much", ID: "2"},
		{Scope: a, Per: config.PerDay, At: at, Credit: 1e9, Reason: `a "good", reason`, ID: "1"},
		{Scope: spend.Scope{Kind: spend.Team, Name: "a"}, At: at},
	}
	pending := []*budgets.Change{{ID: "2", Scope: a}, {ID: "3", Scope: a, Per: config.PerDay, Reason: "reset"}}
	var out bytes.Buffer
	if err := budgets.History(made, pending, budgets.Filter{Kind: "key", Name: "a"}).Write(&out, "csv"); err != nil {
		t.Fatal(err)
	}
	want := "time,scope,name,per,credit_usd,reason,id\n" +
		"2026-11-22T12:00:00Z,key,a,day,1,\"a \"\"good\"\", reason\",1\n" +
		"2026-11-22T13:00:00Z,key,a,day,-0.5,too much,2\n" +
		",key,a,day,,reset,3\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

// TestChangeRoundTrip writes random changes and parses them.
func TestChangeRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		c, err := budgets.NewChange("key", "a", "total", "", "x")
		if err != nil {
			t.Fatal(err)
		}
		c.Scope = spend.Scope{Kind: spend.Kind(rapid.IntRange(0, 3).Draw(t, "kind")), Name: rapid.StringN(1, 100, 1024).Draw(t, "name")}
		c.Reason = strings.TrimSpace("x" + rapid.StringOfN(rapid.RuneFrom([]rune(`a "\<é`)), 0, 200, 400).Draw(t, "reason"))
		if c.Release = rapid.Bool().Draw(t, "release"); !c.Release {
			c.Raise = cost.Nano(rapid.Int64Range(-9_000_000e9, 9_000_000e9).Draw(t, "raise"))
		}
		if c.Per = config.Period(rapid.IntRange(0, config.Periods-1).Draw(t, "per")); c.Per != config.PerTotal {
			c.Start, _ = c.Per.Window(time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "at"), 0), time.UTC)
		}
		if err := budgets.Send(dir, c); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, budgets.Folder, c.ID+".json")
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := budgets.Parse(data)
		if err != nil || *got != *c {
			t.Fatalf("%s: got %+v, error %v, want %+v", data, got, err, c)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzParse checks that every change that Parse returns is valid, and can be listed in all formats.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"id":"0123456789abcdef","scope":"key","name":"a","per":"month","window_start":"2026-11-01T00:00:00Z","raise_usd":50,"reason":"x"}`,
		`{"id":"0123456789abcdef","scope":"team","name":"a","per":"total","reason":"x"}`,
		`{"id":"0123456789abcdef","scope":"team","name":"a","per":"total","reason":"x","release_uncertain":true}`,
		`{"id":"0123456789abcdef","scope":"team","name":"a","per":"total","reason":"x"} {}`,
		`{"id":"../../etc/passwd","scope":"team","name":"a","per":"total","raise_usd":1e99,"reason":"\u0000"}`,
		`[]`, ``, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := budgets.Parse(data)
		if err != nil {
			return
		}
		if err := c.Check(); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if (c.Per == config.PerTotal) != c.Start.IsZero() || strings.ContainsAny(c.ID, `./\`) {
			t.Fatalf("invalid change %+v", c)
		}
		l := budgets.History(nil, []*budgets.Change{c}, budgets.Filter{})
		for _, format := range budgets.Formats {
			if err := l.Write(io.Discard, format); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		if err := l.Write(&out, "json"); err != nil || !json.Valid(out.Bytes()) {
			t.Fatalf("error %v, or invalid JSON: %s", err, &out)
		}
	})
}
