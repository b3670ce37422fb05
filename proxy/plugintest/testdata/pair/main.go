// Command pair is a module of two providers and a router. The providers share a variable in the code, which they must not
// share in the gateway.
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

// heard is the first prompt that an instance received.
var heard string

type left struct{}

func (*left) Request(r *provider.Request) error { return respond(r, "left") }

type right struct{}

func (*right) Request(r *provider.Request) error { return respond(r, "right") }

func respond(r *provider.Request, name string) error {
	if heard == "" {
		heard = string(r.Get("/messages/0/content").Text())
	}
	r.Text(0, abi.EncodingUTF8, []byte(name+" heard "+heard))
	r.Finish(0, abi.FinishStop, nil)
	r.Done()
	return nil
}

func choose(c *router.Choice) error {
	c.Candidate(len(c.Targets) - 1)
	return nil
}
