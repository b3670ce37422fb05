package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/gemini"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// clientAPI is an API of clients with the protocol of its streams.
type clientAPI struct {
	name    string
	api     *clientapi.API
	request string
	check   func(body string) error // returns how a stream violates the protocol
}

func clientAPIs(t *testing.T) []clientAPI {
	sealer := thinking.NewSealer(make([]byte, 32))
	return []clientAPI{
		{"chat", openai.API(), `{"model":"m","messages":[{"role":"user","content":"x"}]}`, func(body string) error {
			plugintest.CheckResponse(t, "200\n"+body, 128)
			return nil
		}},
		{"messages", messages.API(sealer), `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`, checkMessagesStream},
		{"responses", responses.API(responses.Options{Sealer: sealer, Failure: native.Failure, Now: time.Now}), fullResponsesRequest, checkResponsesStream},
		{"gemini", gemini.API(sealer), `{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"thinkingConfig":{"includeThoughts":true}}}`, checkGeminiStream},
	}
}

// TestRecordedStreamsFollowEachAPI replays the recorded streams of all providers for clients of every API. Each stream
// must follow the protocol of its API, in which the parts of a response come one after the other.
func TestRecordedStreamsFollowEachAPI(t *testing.T) {
	if testing.Short() {
		t.Skip("replays 700 responses four times")
	}
	apis := clientAPIs(t)
	checked := 0
	check := func(t *testing.T, c clientAPI, name, response string) {
		t.Helper()
		status, body, _ := strings.Cut(response, "\n")
		if status != "200" {
			return
		}
		checked++
		if err := c.check(body); err != nil {
			t.Errorf("%s of %s: %v in\n%s", c.name, name, err, body)
		}
	}
	for _, plugin := range []string{"anthropic", "bedrock", "cohere", "gemini", "ollama", "openai"} {
		suite := plugintest.Suite{
			Package: "plugins/all", Plugin: plugin, Dir: filepath.Join("../../../../plugins", plugin, "testdata/vectors"),
			Use: plugintest.Use{Paths: anyPath(), Headers: []string{"anthropic-version", "anthropic-beta"}},
		}
		p := suite.Load(t, plugintest.Module)
		for _, v := range suite.Vectors(t) {
			if v.Form != "" || v.Response == nil || strings.Contains(string(v.Request), `"functions"`) {
				continue // legacy function calls have no ID
			}
			b, err := p.Bind(string(v.Settings))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range apis {
				check(t, c, plugin+"/"+v.Name, v.RunFor(b, c.name, []byte(c.request), true).Response)
			}
		}
	}
	recordings := chatRecordings(t)
	for pattern, reader := range map[string]clientapi.Reader{"../../messages/testdata/responses/*.sse": new(messages.Reader), "../../responses/testdata/recorded/*.sse": responses.NewReader(native.Failure)} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) < 20 {
			t.Fatalf("%s: %d recordings, %v", pattern, len(paths), err)
		}
		for _, p := range paths {
			data, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			recordings = append(recordings, apiRecording{name: filepath.Base(p), body: string(data), sse: true, reader: reader})
		}
	}
	for _, rec := range recordings {
		for _, c := range apis {
			check(t, c, rec.name, rec.render(t, c.api, c.request, true, func() int { return len(rec.body) }))
		}
	}
	if checked < 1500 {
		t.Errorf("only %d streams were checked", checked)
	}
}

// TestProtocolChecksFindFaults checks that the checks of TestRecordedStreamsFollowEachAPI fail for blocks, items and
// chunks that do not follow one another.
func TestProtocolChecksFindFaults(t *testing.T) {
	stream := func(events ...string) (body string) {
		for _, data := range events {
			var v struct{ Type string }
			if err := json.Unmarshal([]byte(data), &v); err != nil {
				t.Fatal(err)
			}
			body += "event: " + v.Type + "\ndata: " + data + "\n\n"
		}
		return body
	}
	block := func(n int, typ string) string {
		return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":%q}}`, n, typ)
	}
	item := func(event string, seq, n int, id, status string) string {
		return fmt.Sprintf(`{"type":"response.output_item.%s","sequence_number":%d,"output_index":%d,"item":{"id":%q,"status":%q}}`, event, seq, n, id, status)
	}
	const (
		start, stop       = `{"type":"message_start"}`, `{"type":"message_stop"}`
		end               = `{"type":"message_delta","delta":{}}`
		stop0, stop1      = `{"type":"content_block_stop","index":0}`, `{"type":"content_block_stop","index":1}`
		created, progress = `{"type":"response.created","sequence_number":0}`, `{"type":"response.in_progress","sequence_number":1}`
		completed         = `{"type":"response.completed","sequence_number":6,"response":{"output":[{"id":"a"},{"id":"b"}]}}`
	)
	for name, c := range map[string]struct {
		check func(string) error
		body  string
		valid bool
	}{
		"blocks":      {checkMessagesStream, stream(start, block(0, "tool_use"), stop0, block(1, "thinking"), stop1, end, stop), true},
		"nested":      {checkMessagesStream, stream(start, block(0, "tool_use"), block(1, "thinking"), stop1, stop0, end, stop), false},
		"late block":  {checkMessagesStream, stream(start, end, block(0, "text"), stop0, stop), false},
		"open block":  {checkMessagesStream, stream(start, block(0, "text"), end, stop), false},
		"cut":         {checkMessagesStream, stream(start, block(0, "text")), false},
		"items":       {checkResponsesStream, stream(created, progress, item("added", 2, 0, "a", "in_progress"), item("done", 3, 0, "a", "completed"), item("added", 4, 1, "b", "in_progress"), item("done", 5, 1, "b", "completed"), completed), true},
		"interleaved": {checkResponsesStream, stream(created, progress, item("added", 2, 0, "a", "in_progress"), item("added", 3, 1, "b", "in_progress"), item("done", 4, 0, "a", "completed"), item("done", 5, 1, "b", "completed"), completed), false},
		"other item":  {checkResponsesStream, stream(created, progress, item("added", 2, 0, "a", "in_progress"), item("done", 3, 0, "a", "completed"), item("added", 4, 1, "c", "in_progress"), item("done", 5, 1, "c", "completed"), completed), false},
		"chunks":      {checkGeminiStream, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\",\"thoughtSignature\":\"c2ln\"}]},\"finishReason\":\"STOP\"}]}\n\n", true},
		"late chunk":  {checkGeminiStream, "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\ndata: {\"candidates\":[]}\n\n", false},
		"bare part":   {checkGeminiStream, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"thoughtSignature\":\"c2ln\"}]},\"finishReason\":\"STOP\"}]}\n\n", false},
	} {
		if err := c.check(c.body); (err == nil) != c.valid {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// streamEvents returns the data of each event of a stream, whose name must be its type.
func streamEvents(body string) (all []string, err error) {
	for event := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(event, "\ndata: ")
		var v struct{ Type string }
		if !ok || json.Unmarshal([]byte(data), &v) != nil || name != "event: "+v.Type {
			return nil, fmt.Errorf("invalid event %q", event)
		}
		all = append(all, data)
	}
	return all, nil
}

// checkMessagesStream checks that a stream is one message whose blocks are numbered and open one at a time.
func checkMessagesStream(body string) error {
	events, err := streamEvents(body)
	if err != nil {
		return err
	}
	deltas := map[string][]string{"text": {"text_delta", "citations_delta"}, "thinking": {"thinking_delta", "signature_delta"}, "tool_use": {"input_json_delta"}}
	next, open, last := 0, "", ""
	for i, data := range events {
		var v struct {
			Type  string
			Index int
			Block struct{ Type string } `json:"content_block"`
			Delta struct{ Type string }
		}
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			return err
		}
		valid := last != "error" && last != "message_stop" && (i == 0) == (v.Type == "message_start")
		switch v.Type {
		case "message_start", "ping", "error":
		case "content_block_start":
			valid = valid && open == "" && v.Index == next && last != "message_delta"
			open = v.Block.Type
			next++
		case "content_block_delta":
			valid = valid && v.Index == next-1 && slices.Contains(deltas[open], v.Delta.Type)
		case "content_block_stop":
			valid = valid && v.Index == next-1 && open != ""
			open = ""
		case "message_delta":
			valid = valid && open == ""
		case "message_stop":
			valid = valid && last == "message_delta"
		default:
			valid = false
		}
		if !valid {
			return fmt.Errorf("event %d, %s, after %s with %q open", i, data, last, open)
		}
		last = v.Type
	}
	if last != "error" && last != "message_stop" {
		return fmt.Errorf("last event %s", last)
	}
	return nil
}

// checkResponsesStream checks that a stream is one response whose events and items are numbered, that items and their
// parts are open one at a time, and that the last event has the same items.
func checkResponsesStream(body string) error {
	events, err := streamEvents(body)
	if err != nil {
		return err
	}
	var done []string
	item, part, text, last := "", false, "", ""
	for i, data := range events {
		var v struct {
			Type        string
			Sequence    int    `json:"sequence_number"`
			Output      int    `json:"output_index"`
			ItemID      string `json:"item_id"`
			Delta       string
			Text        *string
			Refusal     *string
			Arguments   *string
			Input       *string
			Item        struct{ ID, Status string }
			Response    struct{ Output []struct{ ID string } }
			Annotations json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			return err
		}
		valid := v.Sequence == i && (i == 0) == (v.Type == "response.created") && (i == 1) == (v.Type == "response.in_progress")
		kind := strings.TrimPrefix(v.Type, "response.")
		switch {
		case i < 2:
		case kind == "failed", kind == "completed", kind == "incomplete":
			valid = valid && i == len(events)-1 && (item == "" || kind == "failed")
			for n, it := range v.Response.Output {
				valid = valid && (kind == "failed" || n < len(done) && it.ID == done[n])
			}
			valid = valid && (kind == "failed" || len(v.Response.Output) == len(done))
		case kind == "output_item.added":
			valid = valid && item == "" && v.Output == len(done) && v.Item.Status == "in_progress"
			item, text = v.Item.ID, ""
		case kind == "output_item.done":
			valid = valid && item == v.Item.ID && v.Output == len(done) && !part && v.Item.Status != "in_progress"
			done, item = append(done, item), ""
		default:
			valid = valid && item != "" && v.ItemID == item && v.Output == len(done)
			switch {
			case strings.HasSuffix(kind, "part.added"):
				valid, part = valid && !part, true
			case strings.HasSuffix(kind, "part.done"):
				valid, part = valid && part, false
			case strings.HasSuffix(kind, ".delta"):
				text += v.Delta
			}
			for _, whole := range []*string{v.Text, v.Refusal, v.Arguments, v.Input} {
				valid = valid && (whole == nil || *whole == text)
			}
		}
		if !valid {
			return fmt.Errorf("event %d, %s, after %s with item %q open", i, data, last, item)
		}
		last = kind
	}
	if last != "completed" && last != "incomplete" && last != "failed" {
		return fmt.Errorf("last event %s", last)
	}
	return nil
}

// checkGeminiStream checks that each chunk has valid parts, and that only the last one has the finish reason or an
// error.
func checkGeminiStream(body string) error {
	ended := false
	for frame := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		var v struct {
			Error      json.RawMessage
			Candidates []struct {
				FinishReason string
				Content      struct {
					Parts []struct {
						Text         *string
						InlineData   json.RawMessage
						FileData     json.RawMessage
						Signature    *string `json:"thoughtSignature"`
						FunctionCall *struct {
							Name string
							Args map[string]json.RawMessage
						}
					}
				}
			}
		}
		if !ok || ended || json.Unmarshal([]byte(data), &v) != nil {
			return fmt.Errorf("invalid frame %q", frame)
		}
		ended = v.Error != nil
		for _, c := range v.Candidates {
			ended = ended || c.FinishReason != ""
			for _, p := range c.Content.Parts {
				if call := p.FunctionCall; p.Text == nil && p.InlineData == nil && p.FileData == nil && (call == nil || call.Name == "" || call.Args == nil) {
					return fmt.Errorf("invalid part in %s", data)
				}
			}
		}
	}
	if !ended {
		return fmt.Errorf("no end")
	}
	return nil
}
