package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// with is a request to a provider with more members, ",…".
func with(members string) string {
	return `{"model":"gpt","messages":[{"role":"user","content":"Hello"}]` + members + `}`
}

// saying is a request to a provider with these messages.
func saying(messages string) string { return `{"model":"gpt","messages":[` + messages + `]}` }

// asking is a request for a model, given as JSON.
func asking(model string) string {
	return `{"model":` + model + `,"messages":[{"role":"user","content":"Hello"}]}`
}

// bad is a vector whose body is refused; the connection stays.
func bad(name, body, code, param string) vector {
	return vector{name: name, send: postHead + sized(body), status: 400, code: code, param: param, fate: stays}
}

func TestInvalidBodies(t *testing.T) { runVectors(t, bodyVectors()) }

func bodyVectors() []vector {
	const noJSON = ""
	vectors := []vector{
		// covers: F114
		bad("empty", "", noJSON, ""),
		{name: "no body at all", send: postHead + "\r\n", status: 400, fate: stays},
		{name: "no chunks", send: postHead + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400, fate: stays},
		bad("spaces", " \r\n\t ", noJSON, ""),
		bad("null", "null", "invalid_type", ""),
		bad("array", "[]", "invalid_type", ""),
		bad("array of requests", "["+helloUpstream+"]", "invalid_type", ""),
		bad("string", `"x"`, "invalid_type", ""),
		bad("number", "5", "invalid_type", ""),
		bad("true", "true", "invalid_type", ""),
		bad("empty object", "{}", "missing_required_parameter", "model"),
		bad("garbage behind", helloUpstream+" x", noJSON, ""),
		bad("NUL behind", helloUpstream+"\x00", noJSON, ""),
		bad("two documents", helloUpstream+helloUpstream, noJSON, ""),
		bad("two lines", helloUpstream+"\n"+helloUpstream, noJSON, ""),
		bad("cut", helloUpstream[:len(helloUpstream)-1], noJSON, ""),
		bad("a comment", strings.Replace(helloUpstream, "{", "{/* x */", 1), noJSON, ""),
		bad("a trailing comma", strings.Replace(helloUpstream, "]}", "],}", 1), noJSON, ""),
		bad("single quotes", strings.ReplaceAll(helloUpstream, `"`, "'"), noJSON, ""),
		bad("a byte order mark", "\xef\xbb\xbf"+helloUpstream, noJSON, ""),
		bad("UTF-16", "{\x00\"\x00", noJSON, ""),
		bad("a form", "model=gpt&messages=x", noJSON, ""),

		// covers: F115
		bad("10,000 levels", with(`,"metadata":`+strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000)), noJSON, ""),
		bad("1,000,000 levels", strings.Repeat("[", 1_000_000), noJSON, ""),
		bad("500,000 objects", strings.Repeat(`{"":`, 250_000), noJSON, ""),
		bad("129 levels", with(`,"x":`+strings.Repeat("[", 128)+strings.Repeat("]", 128)), noJSON, ""),

		// covers: F116
		bad("model twice", with(`,"model":"demo"`), noJSON, ""),
		bad("model twice, once escaped", with(`,"m\u006fdel":"demo"`), noJSON, ""),
		bad("model twice, the same", with(`,"model":"gpt"`), noJSON, ""),
		bad("in a message", saying(`{"role":"user","content":"a","content":"b"}`), noJSON, ""),
		bad("in what is only passed on", with(`,"x":{"y":{"z":1,"\u007a":2}}`), noJSON, ""),

		// covers: F117
		bad("invalid UTF-8", saying("{\"role\":\"user\",\"content\":\"\xff\"}"), noJSON, ""),
		bad("invalid UTF-8 in a name", with(",\"\xc3\":1"), noJSON, ""),
		bad("an encoded surrogate", saying("{\"role\":\"user\",\"content\":\"\xed\xa0\x80\"}"), noJSON, ""),
		bad("overlong", saying("{\"role\":\"user\",\"content\":\"\xc0\xaf\"}"), noJSON, ""),
		bad("overlong NUL", saying("{\"role\":\"user\",\"content\":\"\xe0\x80\x80\"}"), noJSON, ""),
		bad("beyond Unicode", saying("{\"role\":\"user\",\"content\":\"\xf4\x90\x80\x80\"}"), noJSON, ""),
		bad("a control character", saying("{\"role\":\"user\",\"content\":\"\x01\"}"), noJSON, ""),
		bad("a bare line end", saying("{\"role\":\"user\",\"content\":\"a\nb\"}"), noJSON, ""),
		bad("U+0000 in the model", asking(`"a\u0000b"`), "invalid_value", "model"),

		// covers: F118
		bad("NaN", with(`,"temperature":NaN`), noJSON, ""),
		bad("Infinity", with(`,"temperature":Infinity`), noJSON, ""),
		bad("-Infinity", with(`,"temperature":-Infinity`), noJSON, ""),
		bad("1e999", with(`,"temperature":1e999`), noJSON, ""),
		bad("1e999 in what is only passed on", with(`,"x":[1e999]`), noJSON, ""),
		bad("a plus", with(`,"temperature":+1`), noJSON, ""),
		bad("a leading zero", with(`,"max_tokens":05`), noJSON, ""),
		bad("hexadecimal", with(`,"max_tokens":0x5`), noJSON, ""),
		bad("no digits behind the point", with(`,"temperature":1.`), noJSON, ""),
		bad("digits of 1 MB", with(`,"max_tokens":`+strings.Repeat("9", 1_000_000)), noJSON, ""),
		bad("1e18 as digits", with(`,"max_tokens":1000000000000000000`), "integer_above_max_value", "max_tokens"),
		bad("beyond 64 bits", with(`,"max_tokens":18446744073709551617`), "integer_above_max_value", "max_tokens"),
		bad("1e18 as a float", with(`,"max_tokens":1e18`), "invalid_type", "max_tokens"),
		bad("-0", with(`,"max_tokens":-0`), "integer_below_min_value", "max_tokens"),
		bad("0", with(`,"max_tokens":0`), "integer_below_min_value", "max_tokens"),
		bad("-2", with(`,"max_tokens":-2`), "integer_below_min_value", "max_tokens"),
		bad("1.5", with(`,"max_tokens":1.5`), "invalid_type", "max_tokens"),
		bad("a string", with(`,"max_tokens":"5"`), "invalid_type", "max_tokens"),
		bad("temperature", with(`,"temperature":2.0001`), "decimal_above_max_value", "temperature"),
		bad("a negative temperature", with(`,"temperature":-1e-9`), "decimal_below_min_value", "temperature"),
		bad("top_p", with(`,"top_p":1.1`), "decimal_above_max_value", "top_p"),

		// covers: F124
		bad("no messages", saying(""), "empty_array", "messages"),
		bad("an unknown role", saying(`{"role":"king","content":"x"}`), "invalid_value", "messages[0].role"),
		bad("an unknown part", saying(`{"role":"user","content":[{"type":"smell"}]}`), "invalid_value", "messages[0].content[0].type"),
		bad("a role in the middle", saying(strings.Repeat(`{"role":"user","content":"x"},`, 9)+`{"role":1}`), "invalid_type", "messages[9].role"),

		// covers: F126
		bad("n 1000", with(`,"n":1000`), "integer_above_max_value", "n"),
		bad("stop of 1,000", with(`,"stop":[`+strings.TrimSuffix(strings.Repeat(`"x",`, 1000), ",")+`]`), "array_above_max_length", "stop"),
		bad("logit_bias of 50,000", with(`,"logit_bias":{`+biases(50_000)+`}`), "object_above_max_properties", "logit_bias"),
		bad("tools of 2,000", with(`,"tools":[`+strings.TrimSuffix(strings.Repeat(`{"type":"function","function":{"name":"f"}},`, 2000), ",")+`]`), "array_above_max_length", "tools"),
		bad("thinking that the model has not", with(`,"thinking":{"type":"enabled","budget_tokens":1024}`), "unsupported_parameter", "thinking"),
	}
	for name, c := range map[string]struct{ model, echo string }{
		"unknown":             {`"nobody"`, "'nobody'"},
		"in capitals":         {`"GPT"`, "'GPT'"},
		"a path":              {`"../../admin"`, "'../../admin'"},
		"line ends":           {`"a\r\nX: y"`, `'a\r\nX: y'`},
		"a direction mark":    {`"\u202egpt"`, `'\u202egpt'`},
		"quotes":              {`"a'\"b"`, `'a\'"b'`},
		"10 KiB":              {`"` + strings.Repeat("x", 10<<10) + `"`, "'" + strings.Repeat("x", 64) + "…'"},
		"a star":              {`"*"`, "'*'"},
		"a space after it":    {`"gpt "`, "'gpt '"},
		"another composition": {`"gp\u0074\u0301"`, ""},
	} {
		// covers: F125
		v := vector{name: "model " + name, send: postHead + sized(asking(c.model)), status: 404, code: "model_not_found", fate: stays}
		v.says = "The model " + c.echo
		vectors = append(vectors, v)
	}
	narrow := strings.Replace(postHead, proxytest.Key, "sk-narrow-0123456789", 1)
	// covers: F125
	vectors = append(vectors, vector{name: "a model of others", send: narrow + sized(helloUpstream), status: 404, code: "model_not_found", fate: stays,
		says: "The model 'gpt' does not exist or you do not have access to it."})
	return vectors
}

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
		"text/plain":                   "Content-Type: text/plain\r\n",
		"a form":                       "Content-Type: application/x-www-form-urlencoded\r\n",
		"a form of parts":              "Content-Type: multipart/form-data; boundary=x\r\n",
		"bytes":                        "Content-Type: application/octet-stream\r\n",
		"XML":                          "Content-Type: application/xml\r\n",
		"no type":                      "Content-Type: json\r\n",
		"begins like JSON":             "Content-Type: application/jsonx\r\n",
		"JSON in its parameter":        "Content-Type: text/plain; x=application/json\r\n",
		"two types by a comma":         "Content-Type: application/json, text/plain\r\n",
		"two types":                    "Content-Type: application/json\r\nContent-Type: text/plain\r\n",
		"two types, the last one JSON": "Content-Type: text/plain\r\nContent-Type: application/json\r\n",
		"two types, both JSON":         "Content-Type: application/json\r\ncontent-type: application/json\r\n",
		"UTF-16":                       "Content-Type: application/json; charset=utf-16\r\n",
		"UTF-16 in quotes":             "Content-Type: application/json; charset=\"UTF-16\"\r\n",
		"Latin-1 after another":        "Content-Type: application/json; x=y; charset=iso-8859-1\r\n",
		// covers: F123
		"gzip":                          "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
		"br":                            "Content-Type: application/json\r\nContent-Encoding: br\r\n",
		"zstd":                          "Content-Type: application/json\r\nContent-Encoding: zstd\r\n",
		"an unknown one":                "Content-Type: application/json\r\nContent-Encoding: x\r\n",
		"two":                           "Content-Type: application/json\r\nContent-Encoding: identity, gzip\r\n",
		"two headers, the second of it": "Content-Type: application/json\r\nContent-Encoding: identity\r\nContent-Encoding: gzip\r\n",
	} {
		vectors = append(vectors, vector{name: name, send: head + headers + sized(helloUpstream), status: 415, code: "unsupported_media_type", fate: stays})
	}
	return vectors
}

// TestJSONMediaTypes sends every spelling of the media type that clients use, and none.
//
// covers: F122
func TestJSONMediaTypes(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	for _, header := range []string{
		"Content-Type:", "Content-Type: application/json", "Content-Type: Application/JSON", "Content-Type: application/json;charset=UTF-8",
		`Content-Type: application/json; charset="utf-8"`, "Content-Type: application/json ; x=y", "Content-Encoding: identity",
	} {
		if r := g.Do(t, "POST", "/v1/chat/completions", hello, header); r.Status != 200 {
			t.Errorf("%s: %d %s", header, r.Status, r.Body)
		}
	}
}

// TestUnknownMembersArePassedOn checks that a compatible provider receives them unchanged.
//
// covers: F120
func TestUnknownMembersArePassedOn(t *testing.T) {
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
		`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)})
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	if r := g.Chat(t, with(`,"x_new":{"a":[1,2.50,"\u00e9"]},"":0`)); r.Status != 200 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	want := `{"model":"gpt-upstream","messages":[{"role":"user","content":"Hello"}],"x_new":{"a":[1,2.50,"\u00e9"]},"":0}`
	if diff := cmp.Diff(want, string(provider.Requests()[0].Body)); diff != "" {
		t.Error(diff)
	}
}
