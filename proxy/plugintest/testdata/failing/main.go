// Command failing is a plugin that fails as the prompt says: "panic", "loop" forever, or otherwise not at all.
package main

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.Register[failing]() }

func main() {}

type failing struct{}

func (f *failing) Request(r *provider.Request) error {
	switch string(r.Get("/messages/0/content").Text()) {
	case "panic":
		panic("as the prompt says")
	case "loop":
		for {
		}
	}
	r.Text(0, abi.EncodingUTF8, []byte("."))
	r.Finish(0, abi.FinishStop, nil)
	r.Done()
	return nil
}
