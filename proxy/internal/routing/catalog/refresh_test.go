package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
)

// oneProvider is a configuration with one provider, whose models are listed.
const oneProvider = "[providers.up]\nplugin = \"openai\"\nbase_url = \"https://up.example\"\nlist_models = { every = \"10m\" }\n"

// The tests below run in synctest bubbles, in which time advances as soon as all goroutines are blocked.

// sleep advances the bubble's time.
func sleep(d time.Duration) { <-time.After(d) }

// covers: F13
func TestStaleListIsServedDuringRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := &fakeLister{lists: map[string]func(context.Context, int) ([]catalog.Listed, error){
			"up": func(_ context.Context, call int) ([]catalog.Listed, error) {
				if call > 1 {
					<-release
				}
				return list(fmt.Sprint("m", call)), nil
			},
		}}
		c := catalog.New(parse(t, oneProvider), s, catalog.Options{})
		defer c.Close()
		wantIDs(t, c, "m1")
		sleep(10*time.Minute - 1)
		wantIDs(t, c, "m1")
		if n := s.count("up"); n != 1 {
			t.Fatalf("%d fetches while the list is fresh, want 1", n)
		}
		sleep(1)

		start := time.Now()
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if got := ids(c.List(t.Context())); !slices.Equal(got, []string{"m1"}) {
					t.Errorf("list during the refresh: %v", got)
				}
				if _, ok := c.Model(t.Context(), "m1"); !ok {
					t.Error("a listed model was not found during the refresh")
				}
				if _, ok := c.Model(t.Context(), "m2"); ok {
					t.Error("a model was found before it was listed")
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if time.Since(start) != 0 {
			t.Errorf("callers waited %s", time.Since(start))
		}
		if n := s.count("up"); n != 2 {
			t.Errorf("%d refreshes, want 1", n-1)
		}
		close(release)
		synctest.Wait()
		wantIDs(t, c, "m2")
		if _, ok := c.Model(t.Context(), "m1"); ok {
			t.Error("a model was found that is no longer listed")
		}
	})
}

// covers: F13
func TestFirstListIsFetchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeLister{lists: map[string]func(context.Context, int) ([]catalog.Listed, error){
			"up": func(context.Context, int) ([]catalog.Listed, error) {
				sleep(time.Second)
				return list("m"), nil
			},
		}}
		c := catalog.New(parse(t, oneProvider), s, catalog.Options{})
		defer c.Close()
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() { wantIDs(t, c, "m") })
			wg.Go(func() {
				if _, ok := c.Model(t.Context(), "m"); !ok {
					t.Error("a model of the first list was not found")
				}
			})
		}
		wg.Wait()
		if n := s.count("up"); n != 1 {
			t.Errorf("%d fetches, want 1", n)
		}
	})
}

func TestSlowProviderDelaysOnlyFirstCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Value
		s := &fakeLister{lists: map[string]func(context.Context, int) ([]catalog.Listed, error){
			"up": func(ctx context.Context, _ int) ([]catalog.Listed, error) {
				<-ctx.Done()
				ended.Store(ctx.Err())
				return nil, ctx.Err()
			},
		}}
		c := catalog.New(parse(t, oneProvider), s, catalog.Options{FirstWait: 2 * time.Second, FetchTimeout: 30 * time.Second})
		defer c.Close()
		waited := func(f func()) time.Duration { start := time.Now(); f(); return time.Since(start) }
		if d := waited(func() { c.List(t.Context()) }); d != 2*time.Second {
			t.Errorf("the first caller waited %s", d)
		}
		if d := waited(func() { c.List(t.Context()); c.Model(t.Context(), "x") }); d != 0 {
			t.Errorf("a later caller waited %s", d)
		}
		sleep(28 * time.Second)
		synctest.Wait()
		if ended.Load() != context.DeadlineExceeded {
			t.Errorf("the fetch ended with %v, want %v", ended.Load(), context.DeadlineExceeded)
		}
	})
}

func TestCancelledCallerDoesNotCancelTheFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeLister{lists: map[string]func(context.Context, int) ([]catalog.Listed, error){
			"up": func(ctx context.Context, _ int) ([]catalog.Listed, error) {
				select {
				case <-time.After(time.Second):
					return list("m"), nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			},
		}}
		c := catalog.New(parse(t, oneProvider), s, catalog.Options{})
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		start := time.Now()
		if got := c.List(ctx); len(got) != 0 || time.Since(start) != time.Millisecond {
			t.Errorf("got %v after %s, want no models after 1ms", ids(got), time.Since(start))
		}
		wantIDs(t, c, "m")
	})
}

func TestFailedRefreshKeepsTheListAndBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		var fail atomic.Bool
		s := &fakeLister{lists: map[string]func(context.Context, int) ([]catalog.Listed, error){
			"up": func(context.Context, int) ([]catalog.Listed, error) {
				if fail.Load() {
					return nil, broken
				}
				return list("m"), nil
			},
		}}
		var fetched []string
		c := catalog.New(parse(t, oneProvider), s, catalog.Options{
			Backoff: 5 * time.Second,
			Fetched: func(provider string, n int, err error) {
				fetched = append(fetched, fmt.Sprintf("%s %d %v", provider, n, err))
			},
		})
		defer c.Close()
		wantIDs(t, c, "m")
		fail.Store(true)
		sleep(10 * time.Minute)
		// Request models every second for 15 minutes.
		var attempts []time.Duration
		start := time.Now()
		for n := s.count("up"); time.Since(start) < 15*time.Minute; sleep(time.Second) {
			wantIDs(t, c, "m")
			c.Model(t.Context(), "unknown")
			synctest.Wait()
			if s.count("up") > n {
				n = s.count("up")
				attempts = append(attempts, time.Since(start))
			}
		}
		const s1 = time.Second
		want := []time.Duration{0, 5 * s1, 15 * s1, 35 * s1, 75 * s1, 155 * s1, 315 * s1, 615 * s1}
		if diff := cmp.Diff(want, attempts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
		if fetched[0] != "up 1 <nil>" || fetched[1] != "up 0 broken" {
			t.Errorf("calls of Fetched: %v", fetched)
		}

		fail.Store(false)
		sleep(5 * time.Minute)
		wantIDs(t, c, "m")
		synctest.Wait()
		calls := s.count("up")
		sleep(9 * time.Minute)
		wantIDs(t, c, "m")
		synctest.Wait()
		if s.count("up") != calls {
			t.Error("a fresh list was fetched again")
		}
	})
}

func TestUnavailableProviderDoesNotFailTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeLister{lists: map[string]func(context.Context, int) ([]catalog.Listed, error){"first": nil, "second": always("s-1")}}
		c := catalog.New(parse(t, configText), s, catalog.Options{})
		defer c.Close()
		wantIDs(t, c, "demo", "bare", "s-1")
		// Unknown ids cause no fetch, neither while lists are fresh nor during a backoff.
		for i := range 1000 {
			if _, ok := c.Model(t.Context(), fmt.Sprint("random-", i)); ok {
				t.Fatal("an unknown model was found")
			}
		}
		synctest.Wait()
		if s.count("first") != 1 || s.count("second") != 1 {
			t.Errorf("calls: %v", s.calls)
		}
	})
}

func TestReloadInheritsListsOfUnchangedProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		s := &fakeLister{lists: map[string]func(context.Context, int) ([]catalog.Listed, error){
			"first": func(_ context.Context, call int) ([]catalog.Listed, error) {
				if call > 1 {
					<-hang
				}
				return list("f"), nil
			},
			"second": always("s-1", "t-1"),
		}}
		old := catalog.New(parse(t, configText), s, catalog.Options{})
		wantIDs(t, old, "demo", "bare", "f", "s-1")
		old.Close()

		changed := parse(t, configText)
		changed.Provider("second").ListModels.Only = []config.Glob{"t-*"}
		changed.Provider("first").BaseURL = "https://elsewhere.example"
		start := time.Now()
		c := catalog.New(changed, s, catalog.Options{Previous: old})
		if _, ok := c.Model(t.Context(), "t-1"); !ok {
			t.Error("a model of an unchanged provider was not found after a reload")
		}
		if _, ok := c.Model(t.Context(), "s-1"); ok {
			t.Error("a model was found that the configuration no longer selects")
		}
		if time.Since(start) != 2*time.Second {
			t.Errorf("the request for an unknown id waited %s for the changed provider, want 2s", time.Since(start))
		}
		wantIDs(t, c, "demo", "bare", "t-1")
		if s.count("second") != 1 || s.count("first") != 2 {
			t.Errorf("calls: %v", s.calls)
		}
		close(hang)
		c.Close()
		wantIDs(t, c, "demo", "bare", "f", "t-1")
	})
}

func TestReloadInheritsListsWithCloudCredentials(t *testing.T) {
	for name, auth := range map[string]config.Auth{
		"AWS":    {AWS: &config.AWS{Region: "eu-central-1", Service: "bedrock", Profile: "p"}},
		"Google": {Google: &config.Google{Scopes: []string{"a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeLister{lists: map[string]func(context.Context, int) ([]catalog.Listed, error){"up": always("m")}}
				reload := func(old *catalog.Catalog, change func(*config.Auth)) *catalog.Catalog {
					cfg := parse(t, oneProvider)
					a := auth
					// A reload parses the file again, so the pointers differ.
					if a.AWS != nil {
						aws := *a.AWS
						a.AWS = &aws
					} else {
						google := *a.Google
						google.Scopes = append([]string(nil), google.Scopes...)
						a.Google = &google
					}
					change(&a)
					cfg.Provider("up").Auth = a
					return catalog.New(cfg, s, catalog.Options{Previous: old})
				}
				first := reload(nil, func(*config.Auth) {})
				wantIDs(t, first, "m")
				first.Close()
				same := reload(first, func(*config.Auth) {})
				wantIDs(t, same, "m")
				same.Close()
				if s.count("up") != 1 {
					t.Errorf("%d fetches with the same credential, want 1", s.count("up"))
				}
				other := reload(same, func(a *config.Auth) {
					if a.AWS != nil {
						a.AWS.Profile = "q"
					} else {
						a.Google.Scopes[0] = "b"
					}
				})
				wantIDs(t, other, "m")
				other.Close()
				if s.count("up") != 2 {
					t.Errorf("%d fetches after a change of the credential, want 2", s.count("up"))
				}
			})
		})
	}
}

func TestPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeLister{lists: map[string]func(context.Context, int) ([]catalog.Listed, error){"up": always("m")}}
		c := catalog.New(parse(t, oneProvider), s, catalog.Options{})
		defer c.Close()
		c.Prefetch()
		synctest.Wait()
		if s.count("up") != 1 {
			t.Fatalf("%d fetches, want 1", s.count("up"))
		}
		wantIDs(t, c, "m")
	})
}

func TestCloseCancelsFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		s := &fakeLister{lists: map[string]func(context.Context, int) ([]catalog.Listed, error){
			"up": func(ctx context.Context, _ int) ([]catalog.Listed, error) {
				<-ctx.Done()
				sleep(time.Second)
				ended.Store(true)
				return nil, ctx.Err()
			},
		}}
		c := catalog.New(parse(t, oneProvider), s, catalog.Options{})
		c.Prefetch()
		synctest.Wait()
		c.Close()
		if !ended.Load() {
			t.Error("Close returned before the fetch ended")
		}
		sleep(time.Hour)
		c.List(t.Context())
		c.Close()
		synctest.Wait()
		if s.count("up") != 1 {
			t.Errorf("%d fetches after Close", s.count("up")-1)
		}
	})
}

// TestConcurrentUse runs callers concurrently with expiry, failures and Close, for the race detector.
func TestConcurrentUse(t *testing.T) {
	var tick atomic.Int64
	s := &fakeLister{lists: map[string]func(context.Context, int) ([]catalog.Listed, error){
		"first": func(_ context.Context, call int) ([]catalog.Listed, error) {
			if call%3 == 0 {
				return nil, errors.New("broken")
			}
			return list("f", fmt.Sprint("f", call)), nil
		},
		"second": always("s-1"),
	}}
	c := catalog.New(parse(t, configText), s, catalog.Options{Now: func() time.Time { return time.Unix(tick.Add(30), 0) }})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				if got := c.List(t.Context()); len(got) < 2 || got[0].ID != "demo" {
					t.Errorf("list %v", ids(got))
				}
				c.Model(t.Context(), "f")
				if _, ok := c.Model(t.Context(), "demo"); !ok {
					t.Error("a configured model was not found")
				}
			}
		})
	}
	wg.Go(c.Prefetch)
	wg.Wait()
	c.Close()
}

// panickingLister is a Lister that panics.
type panickingLister struct{}

func (panickingLister) ListModels(context.Context, string) ([]catalog.Listed, error) { panic("lister") }

// TestPanickingListerFails checks that a panic of the lister fails the fetch, so that callers do not wait forever.
func TestPanickingListerFails(t *testing.T) {
	failed := make(chan error, 1)
	c := catalog.New(parse(t, oneProvider), panickingLister{}, catalog.Options{Fetched: func(_ string, _ int, err error) {
		select {
		case failed <- err:
		default:
		}
	}})
	defer c.Close()
	wantIDs(t, c)
	if _, ok := errors.AsType[*rescue.Error](<-failed); !ok {
		t.Error("the fetch did not fail with the panic")
	}
}
