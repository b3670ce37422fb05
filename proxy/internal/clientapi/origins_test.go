package clientapi

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

func TestOriginsFindInnermostElement(t *testing.T) {
	var d jsondoc.Doc
	if err := d.Parse([]byte(`{"system":0,"turns":[{"texts":[1,2],"calls":[3]},4,5],"tools":[6]}`), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	root := d.Root()
	turn := root.Get("turns").First()
	var o Origins
	o.AddMessage(root.Get("system"))
	o.AddMessage(turn)
	o.AddPart(turn.Get("texts").First())
	o.AddPart(turn.Get("texts").First().Next())
	o.AddCall(turn.Get("calls").First())
	o.AddMessage(turn.Next())
	o.AddPart(turn.Next().Next())
	o.AddTool(root.Get("tools").First())
	check := func(path string, kind OriginKind, origin, rest string) {
		t.Helper()
		gotKind, v, gotRest := o.Find(path)
		got := ""
		if v.Exists() {
			got = Path(v)
		}
		if gotKind != kind || got != origin || gotRest != rest {
			t.Errorf("Find(%q) = %d, %s, %q, want %d, %s, %q", path, gotKind, got, gotRest, kind, origin, rest)
		}
	}
	check("messages[0].content", OriginMessage, "system", ".content")
	check("messages[0].content[0].text", OriginMessage, "system", ".content[0].text") // its part is not recorded
	check("messages[1]", OriginMessage, "turns[0]", "")
	check("messages[1].content[1].text", OriginPart, "turns[0].texts[1]", ".text")
	check("messages[1].content[2]", OriginMessage, "turns[0]", ".content[2]") // a part of the next message
	check("messages[1].tool_calls[0].function.name", OriginCall, "turns[0].calls[0]", ".function.name")
	check("messages[2].content[0]", OriginPart, "turns[2]", "")
	check("messages[2].tool_calls[0].id", OriginMessage, "turns[1]", ".tool_calls[0].id")
	check("tools[0].function.parameters.type", OriginTool, "tools[0]", ".parameters.type")
	for _, path := range []string{"", "model", "messages", "messages[3]", "messages[-1]", "messages[x]", "messages[1", "tools[1]", "stop[0]"} {
		check(path, OriginNone, "", "")
	}

	o.Truncate(2)
	check("messages[2].content[0]", OriginNone, "", "")
	check("messages[1].content[1]", OriginPart, "turns[0].texts[1]", "")
	o.Truncate(1)
	o.AddMessage(turn.Next())
	check("messages[1].content[0]", OriginMessage, "turns[1]", ".content[0]")
	o.Truncate(5)
	check("messages[1]", OriginMessage, "turns[1]", "")
}
