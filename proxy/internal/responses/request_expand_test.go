package responses_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
)

var sealer = thinking.NewSealer([]byte("0123456789abcdef0123456789abcdef"))

// fakeStore is a Store with responses and items of one client, "c".
type fakeStore map[string]string

func (s fakeStore) AppendConversation(dst []byte, client, id string) ([]byte, bool) {
	items, ok := s[id]
	return append(dst, items...), ok && client == "c"
}

func (s fakeStore) AppendItem(dst []byte, client, id string) ([]byte, bool) {
	return s.AppendConversation(dst, client, id)
}

var stored = fakeStore{
	"resp_1": `{"type":"message","role":"user","content":"a"},{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"b"}]}`,
	"msg_1":  `{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"b"}]}`,
	"resp_0": ``,
}

// parseRequest parses a request, which must be valid.
func parseRequest(t testing.TB, body string) *responses.Request {
	t.Helper()
	r := responses.NewRequest(sealer, stored)
	if e := r.Parse([]byte(body), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	return r
}

func TestExpand(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"nothing to expand":    {`{"model":"m","input":"x"}`, `{"type":"message","role":"user","content":"x"}`},
		"previous and text":    {`{"model":"m","input":"x","previous_response_id":"resp_1"}`, stored["resp_1"] + `,{"type":"message","role":"user","content":"x"}`},                  // covers: P2.22
		"previous and items":   {`{"model":"m","previous_response_id":"resp_1","input":[{"role":"user","content":"x"}]}`, stored["resp_1"] + `,{"role":"user","content":"x"}`},       // covers: P2.22
		"previous alone":       {`{"model":"m","previous_response_id":"resp_1"}`, stored["resp_1"]},                                                                                  // covers: P2.4
		"empty previous":       {`{"model":"m","previous_response_id":"resp_0","input":[ {"role":"user", "content":"x"} ]}`, `{"role":"user","content":"x"}`},                        // covers: P2.22
		"reference":            {`{"model":"m","input":[{"type":"item_reference","id":"msg_1"},{"role":"user","content":"x"}]}`, stored["msg_1"] + `,{"role":"user","content":"x"}`}, // covers: P3.22
		"reference, no type":   {`{"model":"m","input":[{"id":"msg_1"},{"role":"user","content":"x"}]}`, stored["msg_1"] + `,{"role":"user","content":"x"}`},                         // covers: P3.22
		"reference, null type": {`{"model":"m","input":[{"type":null,"id":"msg_1"},{"role":"user","content":"x"}]}`, stored["msg_1"] + `,{"role":"user","content":"x"}`},             // covers: P3.29
	} {
		t.Run(name, func(t *testing.T) {
			r := parseRequest(t, test.body)
			if e := r.Expand("c"); e != nil {
				t.Fatal(e)
			}
			if got := string(r.AppendInput(nil)); got != test.want {
				t.Errorf(" got %s\nwant %s", got, test.want)
			}
			if _, body := r.Document(); string(body) != test.body {
				t.Errorf("the client's document is %s", body)
			}
			if f := r.Describe(); f.Messages != strings.Count(test.want, `"role"`) {
				t.Errorf("Describe reports %d messages", f.Messages)
			}
		})
	}
}
