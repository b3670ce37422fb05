// Command keeper is a provider plugin that responds to every request with all prompts that it has received so far.
package main

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.Register[keeper]() }

func main() {}

type keeper struct{ prompts []byte }

func (k *keeper) Request(r *provider.Request) error {
	k.prompts = append(append(k.prompts, ' '), r.Get("/messages/0/content").Text()...)
	r.Text(0, abi.EncodingUTF8, k.prompts)
	r.Finish(0, abi.FinishStop, nil)
	r.Done()
	return nil
}
