package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// requestWith returns a request for a model of a provider, with more members, which start with a comma.
func requestWith(members string) string {
	return `{"model":"gpt","messages":[{"role":"user","content":"Hello"}]` + members + `}`
}

// requestWithMessages returns a request for a model of a provider, with these messages.
func requestWithMessages(messages string) string {
	return `{"model":"gpt","messages":[` + messages + `]}`
}

// requestForModel returns a request for a model, which is given in JSON.
func requestForModel(model string) string {
	return `{"model":` + model + `,"messages":[{"role":"user","content":"Hello"}]}`
}

// invalidBody returns a vector whose body is rejected without closing the connection.
func invalidBody(name, body, code, param string) vector {
	return vector{name: name, send: postHead + sized(body), status: 400, code: code, param: param, conn: connStays}
}

func TestInvalidBodies(t *testing.T) { runVectors(t, bodyVectors()) }

func bodyVectors() []vector {
	const noJSON = ""
	vectors := []vector{
		// covers: F114
		invalidBody("empty", "", noJSON, ""),
		{name: "no body at all", send: postHead + "\r\n", status: 400, conn: connStays},
		{name: "no chunks", send: postHead + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400, conn: connStays},
		invalidBody("spaces", " \r\n\t ", noJSON, ""),
		invalidBody("null", "null", "invalid_type", ""),
		invalidBody("array", "[]", "invalid_type", ""),
		invalidBody("array of requests", "["+helloUpstream+"]", "invalid_type", ""),
		invalidBody("string", `"x"`, "invalid_type", ""),
		invalidBody("number", "5", "invalid_type", ""),
		invalidBody("true", "true", "invalid_type", ""),
		invalidBody("empty object", "{}", "missing_required_parameter", "model"),
		invalidBody("trailing garbage", helloUpstream+" x", noJSON, ""),
		invalidBody("trailing NUL", helloUpstream+"\x00", noJSON, ""),
		invalidBody("two documents", helloUpstream+helloUpstream, noJSON, ""),
		invalidBody("two lines", helloUpstream+"\n"+helloUpstream, noJSON, ""),
		invalidBody("truncated", helloUpstream[:len(helloUpstream)-1], noJSON, ""),
		invalidBody("a comment", strings.Replace(helloUpstream, "{", "{/* x */", 1), noJSON, ""),
		invalidBody("a trailing comma", strings.Replace(helloUpstream, "]}", "],}", 1), noJSON, ""),
		invalidBody("single quotes", strings.ReplaceAll(helloUpstream, `"`, "'"), noJSON, ""),
		invalidBody("a byte order mark", "\xef\xbb\xbf"+helloUpstream, noJSON, ""),
		invalidBody("UTF-16", "{\x00\"\x00", noJSON, ""),
		invalidBody("a form", "model=gpt&messages=x", noJSON, ""),

		// covers: F115
		invalidBody("10,000 levels", requestWith(`,"metadata":`+strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000)), noJSON, ""),
		invalidBody("1,000,000 levels", strings.Repeat("[", 1_000_000), noJSON, ""),
		invalidBody("500,000 objects", strings.Repeat(`{"":`, 250_000), noJSON, ""),
		invalidBody("129 levels", requestWith(`,"x":`+strings.Repeat("[", 128)+strings.Repeat("]", 128)), noJSON, ""),

		// covers: F116
		invalidBody("model twice", requestWith(`,"model":"demo"`), noJSON, ""),
		invalidBody("model twice, once escaped", requestWith(`,"m\u006fdel":"demo"`), noJSON, ""),
		invalidBody("model twice, the same", requestWith(`,"model":"gpt"`), noJSON, ""),
		invalidBody("duplicate in a message", requestWithMessages(`{"role":"user","content":"a","content":"b"}`), noJSON, ""),
		invalidBody("duplicate in an unknown member", requestWith(`,"x":{"y":{"z":1,"\u007a":2}}`), noJSON, ""),

		// covers: F117
		invalidBody("invalid UTF-8", requestWithMessages("{\"role\":\"user\",\"content\":\"\xff\"}"), noJSON, ""),
		invalidBody("invalid UTF-8 in a name", requestWith(",\"\xc3\":1"), noJSON, ""),
		invalidBody("an encoded surrogate", requestWithMessages("{\"role\":\"user\",\"content\":\"\xed\xa0\x80\"}"), noJSON, ""),
		invalidBody("overlong", requestWithMessages("{\"role\":\"user\",\"content\":\"\xc0\xaf\"}"), noJSON, ""),
		invalidBody("overlong NUL", requestWithMessages("{\"role\":\"user\",\"content\":\"\xe0\x80\x80\"}"), noJSON, ""),
		invalidBody("beyond Unicode", requestWithMessages("{\"role\":\"user\",\"content\":\"\xf4\x90\x80\x80\"}"), noJSON, ""),
		invalidBody("a control character", requestWithMessages("{\"role\":\"user\",\"content\":\"\x01\"}"), noJSON, ""),
		invalidBody("a bare line end", requestWithMessages("{\"role\":\"user\",\"content\":\"a\nb\"}"), noJSON, ""),
		invalidBody("U+0000 in the model", requestForModel(`"a\u0000b"`), "invalid_value", "model"),

		// covers: F118
		invalidBody("NaN", requestWith(`,"temperature":NaN`), noJSON, ""),
		invalidBody("Infinity", requestWith(`,"temperature":Infinity`), noJSON, ""),
		invalidBody("-Infinity", requestWith(`,"temperature":-Infinity`), noJSON, ""),
		invalidBody("1e999", requestWith(`,"temperature":1e999`), noJSON, ""),
		invalidBody("1e999 in an unknown member", requestWith(`,"x":[1e999]`), noJSON, ""),
		invalidBody("a plus", requestWith(`,"temperature":+1`), noJSON, ""),
		invalidBody("a leading zero", requestWith(`,"max_tokens":05`), noJSON, ""),
		invalidBody("hexadecimal", requestWith(`,"max_tokens":0x5`), noJSON, ""),
		invalidBody("no digits after the point", requestWith(`,"temperature":1.`), noJSON, ""),
		invalidBody("digits of 1 MB", requestWith(`,"max_tokens":`+strings.Repeat("9", 1_000_000)), noJSON, ""),
		invalidBody("1e18 as digits", requestWith(`,"max_tokens":1000000000000000000`), "integer_above_max_value", "max_tokens"),
		invalidBody("beyond 64 bits", requestWith(`,"max_tokens":18446744073709551617`), "integer_above_max_value", "max_tokens"),
		invalidBody("1e18 as a float", requestWith(`,"max_tokens":1e18`), "invalid_type", "max_tokens"),
		invalidBody("-0", requestWith(`,"max_tokens":-0`), "integer_below_min_value", "max_tokens"),
		invalidBody("0", requestWith(`,"max_tokens":0`), "integer_below_min_value", "max_tokens"),
		invalidBody("-2", requestWith(`,"max_tokens":-2`), "integer_below_min_value", "max_tokens"),
		invalidBody("1.5", requestWith(`,"max_tokens":1.5`), "invalid_type", "max_tokens"),
		invalidBody("a string", requestWith(`,"max_tokens":"5"`), "invalid_type", "max_tokens"),
		invalidBody("temperature", requestWith(`,"temperature":2.0001`), "decimal_above_max_value", "temperature"),
		invalidBody("a negative temperature", requestWith(`,"temperature":-1e-9`), "decimal_below_min_value", "temperature"),
		invalidBody("top_p", requestWith(`,"top_p":1.1`), "decimal_above_max_value", "top_p"),

		// covers: F124
		invalidBody("no messages", requestWithMessages(""), "empty_array", "messages"),
		invalidBody("an unknown role", requestWithMessages(`{"role":"king","content":"x"}`), "invalid_value", "messages[0].role"),
		invalidBody("an unknown part", requestWithMessages(`{"role":"user","content":[{"type":"smell"}]}`), "invalid_value", "messages[0].content[0].type"),
		invalidBody("a role in the middle", requestWithMessages(strings.Repeat(`{"role":"user","content":"x"},`, 9)+`{"role":1}`), "invalid_type", "messages[9].role"),

		// covers: F126
		invalidBody("n 1000", requestWith(`,"n":1000`), "integer_above_max_value", "n"),
		invalidBody("stop of 1,000", requestWith(`,"stop":[`+strings.TrimSuffix(strings.Repeat(`"x",`, 1000), ",")+`]`), "array_above_max_length", "stop"),
		invalidBody("logit_bias of 50,000", requestWith(`,"logit_bias":{`+biases(50_000)+`}`), "object_above_max_properties", "logit_bias"),
		invalidBody("tools of 2,000", requestWith(`,"tools":[`+strings.TrimSuffix(strings.Repeat(`{"type":"function","function":{"name":"f"}},`, 2000), ",")+`]`), "array_above_max_length", "tools"),
		invalidBody("thinking without support by the model", requestWith(`,"thinking":{"type":"enabled","budget_tokens":1024}`), "unsupported_parameter", "thinking"),
	}
	for name, c := range map[string]struct{ model, echo string }{
		"unknown":             {`"nobody"`, "'nobody'"},
		"in upper case":       {`"GPT"`, "'GPT'"},
		"a path":              {`"../../admin"`, "'../../admin'"},
		"line ends":           {`"a\r\nX: y"`, `'a\r\nX: y'`},
		"a direction mark":    {`"\u202egpt"`, `'\u202egpt'`},
		"quotes":              {`"a'\"b"`, `'a\'"b'`},
		"10 KiB":              {`"` + strings.Repeat("x", 10<<10) + `"`, "'" + strings.Repeat("x", 64) + "…'"},
		"a star":              {`"*"`, "'*'"},
		"a trailing space":    {`"gpt "`, "'gpt '"},
		"another composition": {`"gp\u0074\u0301"`, ""},
	} {
		// covers: F125
		v := vector{name: "model " + name, send: postHead + sized(requestForModel(c.model)), status: 404, code: "model_not_found", conn: connStays}
		v.message = "The model " + c.echo
		vectors = append(vectors, v)
	}
	narrow := strings.Replace(postHead, proxytest.Key, "sk-narrow-0123456789", 1)
	// covers: F125
	vectors = append(vectors, vector{name: "a model of other keys", send: narrow + sized(helloUpstream), status: 404, code: "model_not_found", conn: connStays,
		message: "The model 'gpt' does not exist or you do not have access to it."})
	return vectors
}

// biases returns n members of logit_bias.
func biases(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%d":1`, i)
	}
	return b.String()[1:]
}

func TestWrongMediaTypes(t *testing.T) { runVectors(t, mediaVectors()) }

func mediaVectors() []vector {
	head := strings.Replace(postHead, "Content-Type: application/json\r\n", "", 1)
	var vectors []vector
	for name, headers := range map[string]string{
		// covers: F122
		"text/plain":                      "Content-Type: text/plain\r\n",
		"a form":                          "Content-Type: application/x-www-form-urlencoded\r\n",
		"a multipart form":                "Content-Type: multipart/form-data; boundary=x\r\n",
		"bytes":                           "Content-Type: application/octet-stream\r\n",
		"XML":                             "Content-Type: application/xml\r\n",
		"no type":                         "Content-Type: json\r\n",
		"prefix is JSON":                  "Content-Type: application/jsonx\r\n",
		"JSON in a parameter":             "Content-Type: text/plain; x=application/json\r\n",
		"two types in one header":         "Content-Type: application/json, text/plain\r\n",
		"two headers":                     "Content-Type: application/json\r\nContent-Type: text/plain\r\n",
		"two headers, the last one JSON":  "Content-Type: text/plain\r\nContent-Type: application/json\r\n",
		"two headers, both JSON":          "Content-Type: application/json\r\ncontent-type: application/json\r\n",
		"UTF-16":                          "Content-Type: application/json; charset=utf-16\r\n",
		"UTF-16 in quotes":                "Content-Type: application/json; charset=\"UTF-16\"\r\n",
		"Latin-1 after another parameter": "Content-Type: application/json; x=y; charset=iso-8859-1\r\n",
		// covers: F123
		"gzip":                             "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
		"br":                               "Content-Type: application/json\r\nContent-Encoding: br\r\n",
		"zstd":                             "Content-Type: application/json\r\nContent-Encoding: zstd\r\n",
		"an unknown encoding":              "Content-Type: application/json\r\nContent-Encoding: x\r\n",
		"two encodings":                    "Content-Type: application/json\r\nContent-Encoding: identity, gzip\r\n",
		"two headers, the second one gzip": "Content-Type: application/json\r\nContent-Encoding: identity\r\nContent-Encoding: gzip\r\n",
	} {
		vectors = append(vectors, vector{name: name, send: head + headers + sized(helloUpstream), status: 415, code: "unsupported_media_type", conn: connStays})
	}
	return vectors
}

// TestJSONMediaTypes sends every spelling of the media type that clients use, and a request without one.
//
// covers: F122
func TestJSONMediaTypes(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	for _, header := range []string{
		"Content-Type:", "Content-Type: application/json", "Content-Type: Application/JSON", "Content-Type: application/json;charset=UTF-8",
		`Content-Type: application/json; charset="utf-8"`, "Content-Type: application/json ; x=y", "Content-Encoding: identity",
	} {
		if r := g.Do(t, "POST", "/v1/chat/completions", hello, header); r.Status != 200 {
			t.Errorf("%s: status %d, want 200: %s", header, r.Status, r.Body)
		}
	}
}

// TestUnknownMembersArePassedOn checks that a compatible provider receives unknown members unchanged.
//
// covers: F120
func TestUnknownMembersArePassedOn(t *testing.T) {
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
		`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)})
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	if r := g.Chat(t, requestWith(`,"x_new":{"a":[1,2.50,"\u00e9"]},"":0`)); r.Status != 200 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	want := `{"model":"gpt-upstream","messages":[{"role":"user","content":"Hello"}],"x_new":{"a":[1,2.50,"\u00e9"]},"":0}`
	if diff := cmp.Diff(want, string(provider.Requests()[0].Body)); diff != "" {
		t.Error(diff)
	}
}
