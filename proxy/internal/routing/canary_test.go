package routing_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
)

// newCanary makes the target with this index the policy's canary, with a share of the requests.
func newCanary(t testing.TB, p *routing.Policy, target int, share float64) *canary.Canary {
	s := canary.New(canary.Options{Now: func() time.Time { return now }})
	t.Cleanup(s.Close)
	c := s.Get("m", canary.Settings{Target: p.Targets[target].Provider, Steps: []float64{share}, Every: time.Hour, MaxErrors: 0.5, MaxTraps: 1})
	s.Use([]*canary.Canary{c})
	p.Canary = &routing.Canary{Target: target, State: c}
	return c
}

// never is a share that is too small to admit a request in a test.
const never = 1e-18

func TestCanaryComesFirst(t *testing.T) {
	p := &routing.Policy{Targets: targets()}
	state := newCanary(t, p, 3, 1)
	d, err := decide(t, p, request("c1"))
	if err != nil || !slices.Equal(d.Order(), []int{3, 1, 0, 2}) {
		t.Fatalf("order %v, %v", d.Order(), err)
	}
	if d.Canary(3) != state || d.Canary(1) != nil {
		t.Error("want attempts at the canary's target, and no others, to count for the canary")
	}
	state.Record(canary.Trapped, now) // rolls the canary back
	if line := string(d.AppendLine(nil)); line != "canary d/m4 in (100%); order d/m4, b/m2, a/m1, c/m3" {
		t.Error(line)
	}
	d, err = decide(t, p, request("c1"))
	if err != nil || !slices.Equal(d.Order(), []int{1, 0, 2}) || d.Canary(3) != nil || d.Left(3) != routing.LeftByCanary {
		t.Errorf("after the rollback: order %v, %v", d.Order(), err)
	}
	if line := string(d.AppendLine(nil)); line != "canary d/m4 rolled back; order b/m2, a/m1, c/m3; left out d/m4 (canary)" {
		t.Error(line)
	}
}

func TestRequestsOutsideCanary(t *testing.T) {
	p := &routing.Policy{Targets: targets()}
	newCanary(t, p, 3, never)
	if d, err := decide(t, p, request("c1")); err != nil || !slices.Equal(d.Order(), []int{1, 0, 2}) || d.Left(3) != routing.LeftByCanary {
		t.Errorf("order %v, %v", d.Order(), err)
	}
}

// The router orders the other targets, and its input does not contain the canary's.
func TestCanaryBeforeRouter(t *testing.T) {
	p := &routing.Policy{Targets: targets(), Router: &routing.Router{Plugin: "r", Chooser: chooser(func(input []byte, n int) ([]int, string, error) {
		if n != 3 || strings.Contains(string(input), `"m4"`) {
			t.Errorf("%d targets: %s", n, input)
		}
		return []int{2, 0}, "", nil
	})}}
	newCanary(t, p, 3, 1)
	if got, want := orderOf(t, p, request("c1")), []int{3, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	p.Targets = p.Targets[2:]
	newCanary(t, p, 1, 1)
	p.Router.Chooser = chooser(func([]byte, int) ([]int, string, error) { panic("called with only one target left") })
	if got, want := orderOf(t, p, request("c1")), []int{1, 0}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestCanaryIsNotFirst(t *testing.T) {
	t.Run("circuit open", func(t *testing.T) {
		p := &routing.Policy{Targets: targets()}
		newCanary(t, p, 3, 1)
		fail(t, &p.Targets[3], 5)
		if got, want := orderOf(t, p, request("c1")), []int{1, 0, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("order %v, want %v", got, want)
		}
	})
	t.Run("rule", func(t *testing.T) {
		p := &routing.Policy{Targets: targets(), Rules: []routing.Rule{{Name: "r", Allows: []bool{true, true, false, false}}}}
		newCanary(t, p, 3, 1)
		if d, err := decide(t, p, request("c1")); err != nil || !slices.Equal(d.Order(), []int{1, 0}) || d.Left(3) != routing.LeftByRule {
			t.Errorf("order %v, %v", d.Order(), err)
		}
	})
	t.Run("previous response", func(t *testing.T) {
		p := &routing.Policy{Targets: targets()}
		newCanary(t, p, 3, 1)
		r := request("c1")
		r.Previous = "c"
		if got, want := orderOf(t, p, r), []int{2, 3, 1, 0}; !slices.Equal(got, want) {
			t.Errorf("order %v, want %v", got, want)
		}
	})
}

// The random number of a request decides whether it belongs to the canary only if it has no conversation.
func TestCanaryByConversation(t *testing.T) {
	p := &routing.Policy{Targets: targets(), Affinity: config.Affinity{By: config.AffinityNone}}
	newCanary(t, p, 3, 0.5)
	admitted, random := map[string]int{}, 0 // requests that belong to the canary: by conversation, and without one
	for i := range 400 {
		id := "c" + strconv.Itoa(i%20)
		for _, session := range []string{id, ""} {
			r := request(session)
			r.Random = uint64(i) * 0x9e3779b97f4a7c15
			d, err := decide(t, p, r)
			if err != nil {
				t.Fatal(err)
			}
			if d.Canary(3) != nil {
				if session == "" {
					random++
				} else {
					admitted[session]++
				}
			}
		}
	}
	for id, n := range admitted {
		if n != 20 {
			t.Errorf("%d of 20 requests of conversation %s belong to the canary", n, id)
		}
	}
	if len(admitted) < 5 || len(admitted) > 15 || random < 150 || random > 250 {
		t.Errorf("the canary has %d of 20 conversations, and %d of 400 requests without one; want about half", len(admitted), random)
	}
}

func TestDecisionAsText(t *testing.T) {
	p := &routing.Policy{
		Model: "auto", Targets: targets(), Affinity: config.Affinity{By: config.AffinityConversation},
		Rules: []routing.Rule{{Name: "small", Allows: []bool{true, false, true, true}, Router: &routing.Router{
			Plugin: "router", Chooser: chooser(func([]byte, int) ([]int, string, error) { return []int{0}, "weighted: \x1b[31ma m1", nil }),
		}}},
	}
	newCanary(t, p, 3, 1)
	fail(t, &p.Targets[0], 5)
	d, err := decide(t, p, request("c1"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `rule      small
affinity  conversation, by x-session-id: HASH
canary    d/m4 in (100%), by the conversation (x-session-id)
router    router ordered: weighted: ?[31ma m1

ORDER  TARGET  NOTE
1      d/m4
2      a/m1    circuit open
-      b/m2    left out: the rule does not name it
-      c/m3    left out: the router did not name it
`
	got := strings.Replace(string(d.AppendText(nil)), strconv.FormatUint(d.Affinity.Sum, 16), "HASH", 1)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	const wantJSON = `"canary":{"target":"d/m4","in":true,"by":"x-session-id","share":1}`
	if got := string(d.AppendJSON(nil)); !strings.Contains(got, wantJSON) {
		t.Errorf("no %s in %s", wantJSON, got)
	}
}
