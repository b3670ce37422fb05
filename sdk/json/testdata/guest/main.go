// Command guest measures package json inside a module: it reads the JSON in the option "document" as often as the
// option "times" says, and responds with the number of bytes of text that it read. With the option "whole" it skips the
// document, with "members" it uses Members, otherwise it reads an event of a stream.
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

// message are the members of a document that Members reads.
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

// event reads an event of a stream as a translator does.
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
