package routing_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// TestRouterReceivesExpectedCosts checks that only routers that were written for expected costs receive them, for
// targets with a price.
func TestRouterReceivesExpectedCosts(t *testing.T) {
	rates := cost.NoRates()
	rates[cost.Input] = 2e12
	for _, costs := range []bool{true, false} {
		all := targets()
		all[1].Prices = cost.New(rates)
		var got []byte
		p := &routing.Policy{Targets: all, Router: &routing.Router{Plugin: "r", Parts: map[bool]abi.RouterParts{true: abi.RouterCosts}[costs], Chooser: chooser(func(input []byte, n int) ([]int, string, error) {
			got = slices.Clone(input)
			return []int{1, 0}, "", nil
		})}}
		d, err := decide(t, p, request(""))
		if err != nil {
			t.Fatal(err)
		}
		const member = `"expected_cost":0.002,`
		if want := map[bool]int{true: 1}[costs]; strings.Count(string(got), member) != want || strings.Count(string(got), "expected_cost") != want {
			t.Errorf("costs %t: input %s", costs, got)
		}
		if text := d.AppendText(nil); strings.Contains(string(d.AppendJSON(nil)), `"expected_cost":0.002`) != costs || strings.Contains(string(text), "expected cost 0.002 USD") != costs {
			t.Errorf("costs %t: explanation %s\n%s", costs, d.AppendJSON(nil), text)
		}
	}
}
