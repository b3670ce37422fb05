// Command functions is a provider that reports what functions of the kit return for each message.
package main

import (
	"strconv"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.Register[functions]() }

func main() {}

type functions struct{}

func (*functions) Request(r *provider.Request) error {
	f, _ := r.Get("/temperature").Float()
	status, _ := r.Get("/max_tokens").Int()
	out := number(r.Count("/messages")) + " " + number(r.Count("/model")) + " " + number(int(f*1000)) + " " + number(int(sdk.StatusKind(int(status))))
	for i := range r.Count("/messages") {
		at := "/messages/" + number(i)
		text := r.Get(at + "/content").Text()
		delay := sdk.RetryDelay(text)
		if delay == 0 {
			delay = abi.RetryAfterUnknown
		}
		reason, _ := provider.FinishReason(text)
		out += "\n" + string(r.Get(at+"/role").Text()) + " " + number(int(delay)) + " " + number(int(reason))
	}
	r.Text(0, abi.EncodingUTF8, []byte(out))
	r.Finish(0, abi.FinishStop, nil)
	r.Done()
	return nil
}

func number(n int) string { return strconv.Itoa(n) }

func (*functions) Event(*provider.Answer, *provider.Event) error      { return nil }
func (*functions) Response(_ *provider.Answer, _ int, _ []byte) error { return nil }
