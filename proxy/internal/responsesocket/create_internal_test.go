package responsesocket

import (
	"cmp"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
)

// TestParseCreate checks what is read of a message, or with which error it is rejected and in which lane.
func TestParseCreate(t *testing.T) {
	for message, want := range map[string]struct {
		code, param, lane, previous string
		warmUp, hold                bool
	}{
		`{"type":"response.create"}`: {},
		`{"type":"response.create","stream_id":null,"generate":null,"background":null}`:   {},
		`{"type":"response.create","generate":true,"store":true}`:                         {},
		`{"type":"response.create","store":false}`:                                        {hold: true},
		`{"type":"response.create","generate":false}`:                                     {hold: true, warmUp: true},
		`{"type":"response.create","stream_id":"a.B-9_","previous_response_id":"resp_1"}`: {lane: "a.B-9_", previous: "resp_1"},
		`{"type":"response.create","stream_id":"` + strings.Repeat("a", 256) + `"}`:       {lane: strings.Repeat("a", 256)},
		`{"type":"response.create","stream_id":"` + strings.Repeat("a", 257) + `"}`:       {code: "invalid_stream_id", param: "stream_id"},
		`{"type":"response.create","stream_id":""}`:                                       {code: "invalid_stream_id", param: "stream_id"},
		`{"type":"response.create","stream_id":"a b"}`:                                    {code: "invalid_stream_id", param: "stream_id"},
		`{"type":"response.create","stream_id":7}`:                                        {code: "invalid_stream_id", param: "stream_id"},
		`{"type":"response.cancel","stream_id":"a"}`:                                      {code: "invalid_value", param: "type", lane: "a"},
		`{"input":"x"}`: {code: "invalid_value", param: "type"},
		`{"type":"response.create","stream_id":"a","generate":"no"}`:                              {code: "invalid_type", param: "generate", lane: "a"},
		`{"type":"response.create","stream_id":"a","background":true,"previous_response_id":"r"}`: {code: "unsupported_parameter", param: "background", lane: "a"},
		`{"type":"response.create","background":false}`:                                           {},
		`{"type":"response.create",`:                                                              {code: "invalid_request_error"},
		``:                                                                                        {code: "invalid_request_error"},
	} {
		c, e := parseCreate([]byte(message))
		got := want
		got.code, got.param = "", ""
		if e != nil {
			got.code, got.param = cmp.Or(e.Code, string(e.Kind)), e.Param
		}
		got.lane, got.previous, got.warmUp, got.hold = c.lane, c.previous, c.warmUp, c.hold
		if got != want {
			t.Errorf("%s: got %+v, want %+v", message, got, want)
		}
	}
}

// TestAppendBody checks the body of the request that is made of a message.
func TestAppendBody(t *testing.T) {
	item := func(s string) []byte { return []byte(`{"n":"` + s + `"}`) }
	for name, c := range map[string]struct {
		message string
		held    *responses.Held
		want    string
	}{
		"nothing held":     {`{"type":"response.create","stream":false,"stream_id":"a","generate":true,"model":"m","input":"x","previous_response_id":"r"}`, nil, `{"stream":true,"model":"m","input":"x","previous_response_id":"r"}`},
		"text":             {`{"type":"response.create","input":"x\n","previous_response_id":"r"}`, &responses.Held{Input: item("in"), Output: item("out")}, `{"stream":true,"input":[{"n":"in"},{"n":"out"},{"type":"message","role":"user","content":"x\n"}]}`},
		"items":            {`{"input":[{"n":"1"},{"n":"2"}],"model":"m"}`, &responses.Held{Input: item("in")}, `{"stream":true,"model":"m","input":[{"n":"in"},{"n":"1"},{"n":"2"}]}`},
		"no input":         {`{"model":"m"}`, &responses.Held{Output: item("out")}, `{"stream":true,"model":"m","input":[{"n":"out"}]}`},
		"nothing at all":   {`{}`, &responses.Held{}, `{"stream":true,"input":[]}`},
		"inherited":        {`{"input":[]}`, &responses.Held{Members: []byte(`"instructions":"i","tools":[]`)}, `{"stream":true,"input":[],"instructions":"i","tools":[]}`},
		"not inherited":    {`{"tools":null}`, &responses.Held{Members: []byte(`"instructions":"i","tools":[1]`)}, `{"stream":true,"tools":null,"input":[],"instructions":"i"}`},
		"escaped names":    {`{"t\u0079pe":"response.create","str\u0065am_id":"a","model":"m"}`, nil, `{"stream":true,"model":"m"}`},
		"a second stream":  {`{"type":"response.create","stream":null,"model":"m"}`, nil, `{"stream":true,"model":"m"}`},
		"unknown members":  {`{"type":"response.create","x":{"stream":1}}`, nil, `{"stream":true,"x":{"stream":1}}`},
		"damaged members":  {`{"model":"m"}`, &responses.Held{Members: []byte(`"instructions"`)}, `{"stream":true,"model":"m","input":[]}`},
		"without the type": {`{"model":"m","input":"x"}`, nil, `{"stream":true,"model":"m","input":"x"}`},
	} {
		c2 := &create{}
		if err := c2.doc.Parse([]byte(c.message), jsondoc.Limits{}); err != nil {
			t.Fatal(err)
		}
		if got := string(c2.appendBody(nil, c.held)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// TestAppendMembers checks what a request inherits of a warm-up.
func TestAppendMembers(t *testing.T) {
	for message, want := range map[string]string{
		`{"type":"response.create","model":"m"}`:                                             ``,
		`{"type":"response.create","tools":[{"a":1}],"instructions":"i","input":"x"}`:        `"instructions":"i","tools":[{"a":1}]`,
		`{"type":"response.create","tools":null,"metadata":{"instructions":"not this one"}}`: `"tools":null`,
	} {
		c, e := parseCreate([]byte(message))
		if e != nil {
			t.Fatal(e)
		}
		if got := string(c.appendMembers(nil)); got != want {
			t.Errorf("%s: got %s, want %s", message, got, want)
		}
	}
}
