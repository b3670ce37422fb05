// Command pair is a module of two providers and a router. What the providers share in the code they must not share in
// the gateway.
package main

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/provider"
	"github.com/sluice-gateway/sluice/sdk/router"
)

func init() {
	provider.RegisterAs[left]("left")
	provider.RegisterAs[right]("right")
	router.RegisterAs("middle", choose, nil)
}

func main() {}

// heard is what any of them was told first.
var heard string

type left struct{}

func (*left) Request(r *provider.Request) error { return answer(r, "left") }

type right struct{}

func (*right) Request(r *provider.Request) error { return answer(r, "right") }

func answer(r *provider.Request, who string) error {
	if heard == "" {
		heard = string(r.Get("/messages/0/content").Text())
	}
	r.Text(0, abi.EncodingUTF8, []byte(who+" heard "+heard))
	r.Finish(0, abi.FinishStop, nil)
	r.Done()
	return nil
}

func choose(c *router.Choice) error {
	c.Candidate(len(c.Targets) - 1)
	return nil
}
