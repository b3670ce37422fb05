// Command listed is a provider plugin with a model list of pages.
package main

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.Register[listed]() }

func main() {}

type listed struct{}

func (*listed) Request(r *provider.Request) error {
	r.Text(0, abi.EncodingUTF8, []byte("."))
	r.Finish(0, abi.FinishStop, nil)
	r.Done()
	return nil
}

func (*listed) List(l *provider.List, cursor []byte) error {
	if len(cursor) > 0 {
		l.SetPath("/models?page=" + string(cursor))
		return nil
	}
	l.SetPath("/models")
	return nil
}

func (*listed) Models(m *provider.Models, status int, body []byte) error {
	if status >= 300 {
		return sdk.Fail(sdk.StatusKind(status), "No list.")
	}
	var in json.Reader
	in.Reset(body)
	for o := in.Object(); o.Next(); {
		switch string(in.Name()) {
		case "models":
			for e := in.Array(); e.Next(); {
				m.Add(&provider.Model{ID: in.Text()})
			}
		case "next":
			m.More(in.Text())
		default:
			in.Skip()
		}
	}
	return in.End()
}
