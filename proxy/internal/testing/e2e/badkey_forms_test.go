package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// requestWithAuthorization returns a chat completions request with these lines in place of its Authorization header.
func requestWithAuthorization(lines string) string {
	return strings.Replace(postHead, "Authorization: Bearer "+proxytest.Key+"\r\n", lines, 1) + sized(helloUpstream)
}

// similarKey returns a key that differs from the valid one only in its last n bytes.
func similarKey(n int) string { return proxytest.Key[:len(proxytest.Key)-n] + strings.Repeat("x", n) }

// wrongKeys are values of Authorization without a valid key.
var wrongKeys = map[string]string{
	// covers: F129
	"another scheme":   "Basic dGVzdHM6c2stcHJveHl0ZXN0",
	"a similar scheme": "Bearers " + proxytest.Key,
	"no key":           "Bearer",
	"only a space":     "Bearer ",
	"no scheme":        proxytest.Key,
	"no space":         "Bearer" + proxytest.Key,
	"a colon":          "Bearer: " + proxytest.Key,
	"in quotes":        `Bearer "` + proxytest.Key + `"`,
	"two words":        "Bearer " + proxytest.Key + " x",
	"two schemes":      "Bearer Bearer " + proxytest.Key,
	"a parameter":      "Bearer token=" + proxytest.Key,
	// covers: F130
	"of the same length":  "Bearer " + similarKey(len(proxytest.Key)),
	"one byte different":  "Bearer " + similarKey(1),
	"a prefix of the key": "Bearer " + proxytest.Key[:len(proxytest.Key)-1],
	"one byte more":       "Bearer " + proxytest.Key + "0",
	"in upper case":       "Bearer " + strings.ToUpper(proxytest.Key),
	"8 KiB":               "Bearer " + strings.Repeat("k", 8<<10),
	"not ASCII":           "Bearer sk-schlüssel",
	"not UTF-8":           "Bearer sk-\xff\xfe",
	"the name of a key":   "Bearer tests",
	"an injection":        "Bearer ' OR '1'='1",
	// covers: F133
	"expired":  "Bearer sk-expired-0123456789",
	"disabled": "Bearer sk-disabled-0123456789",
}

func TestInvalidKeys(t *testing.T) { runVectors(t, keyVectors()) }

func keyVectors() []vector {
	challenge := []string{"Www-Authenticate: Bearer"}
	missing := func(name, lines string) vector {
		return vector{name: name, send: requestWithAuthorization(lines), status: 401, code: "missing_api_key", conn: connStays, headers: challenge, message: "Authorization: Bearer"}
	}
	var vectors []vector
	for name, lines := range map[string]string{
		// covers: F128
		"absent":    "",
		"empty":     "Authorization: \r\n",
		"blank":     "Authorization: \t \r\n",
		"as cookie": "Cookie: Authorization=Bearer " + proxytest.Key + "\r\n",
		"for proxy": "Proxy-Authorization: Bearer " + proxytest.Key + "\r\n",
		"prefixed":  "X-Authorization: Bearer " + proxytest.Key + "\r\n",
	} {
		vectors = append(vectors, missing(name, lines))
	}
	for name, lines := range map[string]string{
		// covers: F132
		"x-api-key":      "x-api-key: " + proxytest.Key + "\r\n",
		"api-key":        "api-key: " + proxytest.Key + "\r\n",
		"x-goog-api-key": "X-Goog-Api-Key: " + proxytest.Key + "\r\n",
	} {
		v := missing(name, lines)
		v.message = "A key in another header or in the URL is ignored."
		vectors = append(vectors, v)
	}
	for _, query := range []string{"api_key=", "key=", "a=b&api-key=", "api%5Fkey="} {
		// covers: F132
		v := missing("in the query as "+query, "")
		v.send = strings.Replace(v.send, " HTTP/1.1", "?"+query+proxytest.Key+" HTTP/1.1", 1)
		v.message = "A key in another header or in the URL is ignored."
		vectors = append(vectors, v)
	}
	for name, value := range wrongKeys {
		vectors = append(vectors, vector{name: name, send: requestWithAuthorization("Authorization: " + value + "\r\n"), status: 401, code: "invalid_api_key", conn: connStays, headers: challenge, message: "The API key is not valid."})
	}
	for name, lines := range map[string]string{
		// covers: F131
		"two headers":                   "Authorization: Bearer " + proxytest.Key + "\r\nAuthorization: Bearer sk-nobody\r\n",
		"two headers, the same":         "Authorization: Bearer " + proxytest.Key + "\r\nauthorization: Bearer " + proxytest.Key + "\r\n",
		"two headers, one empty":        "Authorization: \r\nAuthorization: Bearer " + proxytest.Key + "\r\n",
		"two schemes":                   "Authorization: Basic eDp5\r\nAuthorization: Bearer " + proxytest.Key + "\r\n",
		"joined by a comma":             "Authorization: Bearer " + proxytest.Key + ", Bearer " + proxytest.Key + "\r\n",
		"keys joined by a comma":        "Authorization: Bearer " + proxytest.Key + ",sk-nobody\r\n",
		"nothing after the comma":       "Authorization: Bearer " + proxytest.Key + ",\r\n",
		"a valid key after a wrong one": "Authorization: Bearer sk-nobody, Bearer " + proxytest.Key + "\r\n",
	} {
		vectors = append(vectors, vector{name: name, send: requestWithAuthorization(lines), status: 400, code: "duplicate_authorization", conn: connStays})
	}
	return vectors
}

// TestSameErrorForAllInvalidKeys checks that the response does not reveal which keys exist.
//
// covers: F130 F133
func TestSameErrorForAllInvalidKeys(t *testing.T) {
	g := proxytest.Start(t, unlimited(configuration("", "")))
	bodies := map[string]bool{}
	for name, value := range wrongKeys {
		r := g.Do(t, "POST", "/v1/chat/completions", hello, "Authorization: "+value)
		if bodies[r.Body] = true; len(bodies) > 1 {
			t.Fatalf("%s: body differs from those for other invalid keys: %s", name, r.Body)
		}
	}
}

// TestValidKeyInEveryForm sends a valid key in every form that HTTP allows.
//
// covers: F129
func TestValidKeyInEveryForm(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	for _, value := range []string{"Bearer ", "bearer ", "BEARER ", "Bearer  ", "Bearer\t", "\t Bearer \t "} {
		c := dial(t, g)
		c.send("GET /v1/models HTTP/1.1\r\nHost: gateway\r\nAuthorization:" + value + proxytest.Key + " \r\n\r\n")
		if resp, err := http.ReadResponse(c.r, nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("%q: %v, %v", value, resp, err)
		}
	}
}

// TestLogSaysWhyKeyIsRejected checks that the log, but not the response, names the key and the reason.
//
// covers: F133
func TestLogSaysWhyKeyIsRejected(t *testing.T) {
	g := proxytest.Start(t, strings.Replace(configuration("", ""), "[providers.demo]", "[[keys]]\nname = \"early\"\nsecret = \"sk-early-0123456789\"\nnot_before = 2100-01-01\n[providers.demo]", 1))
	for name, reason := range map[string]string{"expired": "expired key", "disabled": "disabled key", "early": "key is not valid yet"} {
		r := g.Do(t, "GET", "/v1/models", "", "Authorization: Bearer sk-"+name+"-0123456789")
		wantError(t, r, 401, "invalid_request_error", "invalid_api_key", "")
		if line := g.Log.Request(t, r.RequestID()); line["cause"] != "key "+name+": "+reason || strings.Contains(r.Body, name) {
			t.Errorf("%s: the log has the cause %q, the client receives %s", name, line["cause"], r.Body)
		}
	}
}
