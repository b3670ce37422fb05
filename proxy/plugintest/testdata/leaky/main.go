// Command leaky is a plugin that leaks state between requests, as no plugin may: it repeats the prompt of one client to the next.
package main

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.Register[leaky]() }

func main() {}

type leaky struct{ last []byte }

func (l *leaky) Request(r *provider.Request) error {
	r.Text(0, abi.EncodingUTF8, l.last)
	l.last = append([]byte("I heard "), r.Get("/messages/0/content").Text()...)
	r.Text(0, abi.EncodingUTF8, []byte("."))
	r.Finish(0, abi.FinishStop, nil)
	r.Done()
	return nil
}
