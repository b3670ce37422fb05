// Command keeper is a provider plugin that keeps all that it was ever told, and tells it to everybody who asks.
package main

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.Register[keeper]() }

func main() {}

type keeper struct{ heard []byte }

func (k *keeper) Request(r *provider.Request) error {
	k.heard = append(append(k.heard, ' '), r.Get("/messages/0/content").Text()...)
	r.Text(0, abi.EncodingUTF8, k.heard)
	r.Finish(0, abi.FinishStop, nil)
	r.Done()
	return nil
}
