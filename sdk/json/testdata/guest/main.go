// Command guest measures package json inside a module: it reads what the option "document" holds, as often as the
// option "times" says, and answers how many bytes of text it has seen. The options "whole" and "members" say how.
package main

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.Register[guest]() }

func main() {}

type guest struct {
	reader  json.Reader
	members json.Members
}

// message is the members that a document is read for in one go.
var message = json.NewShape("role", "content", "name", "tool_calls", "tool_call_id", "cache_control", "function.name", "function.arguments")

func (g *guest) Request(r *provider.Request) error {
	times, _ := r.Options.Get("times").Int()
	document := r.Options.Get("document")
	whole, _ := r.Options.Get("whole").Bool()
	members, _ := r.Options.Get("members").Bool()
	seen := 0
	for range times {
		if members {
			g.reader.Reset(document)
			g.reader.Members(&g.members, message)
			if err := g.reader.End(); err != nil {
				return err
			}
			seen += len(g.members.Inside(1))
			continue
		}
		if whole {
			g.reader.Reset(document)
			if err := g.reader.End(); err != nil {
				return err
			}
			continue
		}
		n, err := g.event(document)
		if err != nil {
			return err
		}
		seen += n
	}
	r.Text(0, abi.EncodingUTF8, json.AppendInt(nil, int64(seen)))
	r.Finish(0, abi.FinishStop, nil)
	r.Done()
	return nil
}

// event reads one event of a stream as a translator does.
func (g *guest) event(data []byte) (int, error) {
	r := &g.reader
	r.Reset(data)
	var kind, text []byte
	var index int64
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			kind = r.Inside()
		case "index":
			index, _ = r.Int()
		case "delta":
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "type":
					r.Skip()
				case "text":
					text = r.Inside()
				}
			}
		}
	}
	if string(kind) != "content_block_delta" || index != 0 {
		return 0, nil
	}
	return len(text), r.End()
}
