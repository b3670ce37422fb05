package messages_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// conversation draws requests with everything that can be lowered, and records their texts.
type conversation struct {
	*rapid.T
	texts []string // must be in the lowered request
	calls int
	open  []string // tool uses without a result
}

func (c *conversation) pick(label string, values ...string) string {
	return rapid.SampledFrom(values).Draw(c.T, label)
}

// text draws a text that must not be lost, as a JSON string.
func (c *conversation) text() string {
	s := fmt.Sprintf("%d:%s", len(c.texts), rapid.StringN(0, 8, -1).Draw(c.T, "text"))
	c.texts = append(c.texts, s)
	quoted, err := json.Marshal(s)
	if err != nil {
		c.Fatal(err)
	}
	return string(quoted)
}

func (c *conversation) cache() string {
	return c.pick("cache", ``, ``, `,"cache_control":{"type":"ephemeral"}`, `,"cache_control":null`)
}

// blocks returns a list of blocks that draw returns, without empty ones.
func (c *conversation) blocks(atLeast, atMost int, draw func() string) string {
	var all []string
	for range rapid.IntRange(atLeast, atMost).Draw(c.T, "blocks") {
		all = append(all, draw())
	}
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), ",")
}

func (c *conversation) content(nested int) string {
	switch c.pick("content", "text", "text", "empty", "image", "file", "plain", "blocks", "search") {
	case "text":
		return `{"type":"text","text":` + c.text() + c.cache() + `}`
	case "empty":
		return `{"type":"text","text":""}`
	case "image":
		return `{"type":"image","source":{"type":"url","url":` + c.text() + `}` + c.cache() + `}`
	case "file":
		return `{"type":"document","title":` + c.text() + `,"source":{"type":"base64","media_type":"application/pdf","data":"JVBE"}}`
	case "plain":
		return `{"type":"document","context":` + c.text() + `,"source":{"type":"text","media_type":"text/plain","data":` + c.text() + `}}`
	case "blocks":
		if nested > 1 {
			return `{"type":"text","text":` + c.text() + `}`
		}
		return `{"type":"document","source":{"type":"content","content":[` + c.blocks(0, 2, func() string { return c.content(2) }) + `]}` + c.cache() + `}`
	}
	return `{"type":"search_result","source":` + c.text() + `,"title":` + c.text() + `,"content":[{"type":"text","text":` + c.text() + `}]}`
}

func (c *conversation) assistantBlock() string {
	switch c.pick("block", "text", "empty", "call", "call", "signed", "redacted", "sealed", "plain", "damaged", "server") {
	case "text":
		return `{"type":"text","text":` + c.text() + c.cache() + `}`
	case "empty":
		return `{"type":"text","text":""}`
	case "call":
		c.calls++
		id := fmt.Sprintf("call_%d", c.calls)
		c.open = append(c.open, id)
		return `{"type":"tool_use","id":"` + id + `","name":"f","input":{"x":` + c.text() + `, "y" : [ 1.0, {"z":null} ]}` + c.cache() + `}`
	case "signed":
		return `{"type":"thinking","thinking":` + c.text() + `,"signature":"EqQB"}`
	case "redacted":
		return `{"type":"redacted_thinking","data":` + c.text() + `}`
	case "sealed":
		part := abi.ReasoningPart(rapid.IntRange(0, abi.ReasoningParts-1).Draw(c.T, "part"))
		return `{"type":"thinking","thinking":` + c.text() + `,"signature":"` + seal(c.pick("format", "", "xai-responses-v1", "google-gemini-v1"), part, c.pick("call", "", "call_1"), "D") + `"}`
	case "plain":
		return `{"type":"thinking","thinking":` + c.text() + `,"signature":""}`
	case "damaged":
		return `{"type":"thinking","thinking":"lost","signature":"sluice.seal.1.AAAA"}`
	}
	return `{"type":"server_tool_use","id":"s","name":"n","input":{}}`
}

// results draws user messages with the results of all open tool uses, in any order, among other blocks.
func (c *conversation) results() string {
	blocks := rapid.Permutation(c.open).Draw(c.T, "order")
	c.open = nil
	var b strings.Builder
	for i, id := range blocks {
		if i > 0 {
			b.WriteString(c.pick("split", `,`, `]},{"role":"user","content":[`))
		}
		b.WriteString(`{"type":"tool_result","tool_use_id":"` + id + `"` + c.pick("error", ``, `,"is_error":true`, `,"is_error":false`) + c.cache())
		switch c.pick("result", "absent", "string", "blocks") {
		case "string":
			b.WriteString(`,"content":` + c.text())
		case "blocks":
			b.WriteString(`,"content":[` + c.blocks(0, 3, func() string { return c.content(1) }) + `]`)
		}
		b.WriteString(`}`)
		if c.pick("besides", "no", "no", "text") == "text" {
			b.WriteString(`,` + c.content(0))
		}
	}
	return c.pick("system", ``, `{"role":"system","content":"S"},`) + `{"role":"user","content":[` + b.String() + `]}`
}

func (c *conversation) draw() string {
	list := []string{`{"role":"user","content":` + c.text() + `}`}
	for range rapid.IntRange(0, 6).Draw(c.T, "messages") {
		switch c.pick("message", "user", "assistant", "string", "system") {
		case "user":
			list = append(list, `{"role":"user","content":[`+c.blocks(0, 3, func() string { return c.content(0) })+`]}`)
		case "assistant":
			for {
				list = append(list, `{"role":"assistant","content":[`+c.blocks(0, 5, c.assistantBlock)+`]}`)
				if c.pick("again", "no", "no", "yes") == "no" {
					break
				}
			}
			if len(c.open) > 0 {
				list = append(list, c.results())
			}
		case "string":
			list = append(list, `{"role":"assistant","content":`+c.text()+`}`)
		case "system":
			list = append(list, newMessage("system", `{"type":"text","text":`+c.text()+`}`))
		}
	}
	return strings.Join(list, ",")
}

// TestLoweringKeepsAllTexts lowers arbitrary conversations: they are accepted, and the chat completions request
// contains every text.
//
// covers: M3.1 M3.2 M3.20
func TestLoweringKeepsAllTexts(t *testing.T) {
	r := messages.NewRequest(thinking.NewSealer(sealKey))
	var chat openai.Request
	rapid.Check(t, func(t *rapid.T) {
		c := &conversation{T: t}
		body := `{"model":"m","max_tokens":100,"system":[` + c.blocks(0, 2, func() string { return `{"type":"text","text":` + c.text() + c.cache() + `}` }) + `],"messages":[` + c.draw() + `]}`
		if e := r.Parse([]byte(body), clientapi.Limits{}); e != nil {
			t.Fatalf("%v: %s", e, body)
		}
		lowered, _, e := r.AppendChat(nil)
		if e != nil {
			t.Fatalf("%v: %s", e, body)
		}
		if e := chat.Parse(bytes.Clone(lowered), clientapi.Limits{}.Lowered()); e != nil || !bytes.Equal(chat.Body, lowered) {
			t.Fatalf("%v: %s is lowered to %s", e, body, lowered)
		}
		// Arguments are JSON in a string, so they are parsed as well.
		var all bytes.Buffer
		clientapi.EachText(&chat.Doc, func(text []byte) {
			all.Write(text)
			var inner jsondoc.Doc
			if inner.Parse(text, jsondoc.Limits{}) == nil {
				clientapi.EachText(&inner, func(text []byte) { all.Write(text) })
			}
			all.WriteByte(0)
		})
		for _, text := range c.texts {
			if !bytes.Contains(all.Bytes(), []byte(text)) {
				t.Fatalf("%q is lost: %s is lowered to %s", text, body, lowered)
			}
		}
		checkRequest(t, r, &chat, []byte(body), body, 0, true)
	})
}
