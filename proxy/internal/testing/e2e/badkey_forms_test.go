package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// keyed is a completion request with these lines in place of its Authorization.
func keyed(lines string) string {
	return strings.Replace(postHead, "Authorization: Bearer "+proxytest.Key+"\r\n", lines, 1) + sized(helloUpstream)
}

// ofLength is a key that is as long as the good one, with another end.
func ofLength(n int) string { return proxytest.Key[:len(proxytest.Key)-n] + strings.Repeat("x", n) }

// wrongKeys are values of Authorization that are not those of a good key.
var wrongKeys = map[string]string{
	"faults/129 another scheme":        "Basic dGVzdHM6c2stcHJveHl0ZXN0",
	"faults/129 a scheme that is like": "Bearers " + proxytest.Key,
	"faults/129 no key":                "Bearer",
	"faults/129 no key but a space":    "Bearer ",
	"faults/129 no scheme":             proxytest.Key,
	"faults/129 no space":              "Bearer" + proxytest.Key,
	"faults/129 a colon":               "Bearer: " + proxytest.Key,
	"faults/129 in quotes":             `Bearer "` + proxytest.Key + `"`,
	"faults/129 two words":             "Bearer " + proxytest.Key + " x",
	"faults/129 twice the scheme":      "Bearer Bearer " + proxytest.Key,
	"faults/129 a parameter":           "Bearer token=" + proxytest.Key,
	"faults/130 of the same length":    "Bearer " + ofLength(len(proxytest.Key)),
	"faults/130 one byte different":    "Bearer " + ofLength(1),
	"faults/130 a beginning":           "Bearer " + proxytest.Key[:len(proxytest.Key)-1],
	"faults/130 more behind":           "Bearer " + proxytest.Key + "0",
	"faults/130 in capitals":           "Bearer " + strings.ToUpper(proxytest.Key),
	"faults/130 8 KiB":                 "Bearer " + strings.Repeat("k", 8<<10),
	"faults/130 not ASCII":             "Bearer sk-schlüssel",
	"faults/130 not UTF-8":             "Bearer sk-\xff\xfe",
	"faults/130 the name of a key":     "Bearer tests",
	"faults/130 an injection":          "Bearer ' OR '1'='1",
	"faults/133 expired":               "Bearer sk-expired-0123456789",
	"faults/133 disabled":              "Bearer sk-disabled-0123456789",
}

func TestBadKeys(t *testing.T) { runVectors(t, keyVectors()) }

func keyVectors() []vector {
	asks := []string{"Www-Authenticate: Bearer"}
	missing := func(name, lines string) vector {
		return vector{name: name, send: keyed(lines), status: 401, code: "missing_api_key", fate: stays, also: asks, says: "Authorization: Bearer"}
	}
	var vectors []vector
	for name, lines := range map[string]string{
		"faults/128 absent":    "",
		"faults/128 empty":     "Authorization: \r\n",
		"faults/128 blank":     "Authorization: \t \r\n",
		"faults/128 as cookie": "Cookie: Authorization=Bearer " + proxytest.Key + "\r\n",
		"faults/128 for proxy": "Proxy-Authorization: Bearer " + proxytest.Key + "\r\n",
		"faults/128 like it":   "X-Authorization: Bearer " + proxytest.Key + "\r\n",
	} {
		vectors = append(vectors, missing(name, lines))
	}
	for name, lines := range map[string]string{
		"faults/132 x-api-key":      "x-api-key: " + proxytest.Key + "\r\n",
		"faults/132 api-key":        "api-key: " + proxytest.Key + "\r\n",
		"faults/132 x-goog-api-key": "X-Goog-Api-Key: " + proxytest.Key + "\r\n",
	} {
		v := missing(name, lines)
		v.says = "Other headers and the address are not searched for one."
		vectors = append(vectors, v)
	}
	for _, query := range []string{"api_key=", "key=", "a=b&api-key=", "api%5Fkey="} {
		v := missing("faults/132 in the query as "+query, "")
		v.send = strings.Replace(v.send, " HTTP/1.1", "?"+query+proxytest.Key+" HTTP/1.1", 1)
		v.says = "Other headers and the address are not searched for one."
		vectors = append(vectors, v)
	}
	for name, value := range wrongKeys {
		vectors = append(vectors, vector{name: name, send: keyed("Authorization: " + value + "\r\n"), status: 401, code: "invalid_api_key", fate: stays, also: asks, says: "The API key is not valid."})
	}
	for name, lines := range map[string]string{
		"faults/131 two headers":                 "Authorization: Bearer " + proxytest.Key + "\r\nAuthorization: Bearer sk-nobody\r\n",
		"faults/131 two headers, the same":       "Authorization: Bearer " + proxytest.Key + "\r\nauthorization: Bearer " + proxytest.Key + "\r\n",
		"faults/131 two headers, one empty":      "Authorization: \r\nAuthorization: Bearer " + proxytest.Key + "\r\n",
		"faults/131 two schemes":                 "Authorization: Basic eDp5\r\nAuthorization: Bearer " + proxytest.Key + "\r\n",
		"faults/131 joined by a comma":           "Authorization: Bearer " + proxytest.Key + ", Bearer " + proxytest.Key + "\r\n",
		"faults/131 keys joined by a comma":      "Authorization: Bearer " + proxytest.Key + ",sk-nobody\r\n",
		"faults/131 nothing behind the comma":    "Authorization: Bearer " + proxytest.Key + ",\r\n",
		"faults/131 a good one behind the wrong": "Authorization: Bearer sk-nobody, Bearer " + proxytest.Key + "\r\n",
	} {
		vectors = append(vectors, vector{name: name, send: keyed(lines), status: 400, code: "duplicate_authorization", fate: stays})
	}
	return vectors
}

// TestF130_F133_OneBodyForAllOfThem so that nobody learns from it which keys there are.
func TestF130_F133_OneBodyForAllOfThem(t *testing.T) {
	g := proxytest.Start(t, unlimited(configuration("", "")))
	bodies := map[string]bool{}
	for name, value := range wrongKeys {
		r := g.Do(t, "POST", "/v1/chat/completions", hello, "Authorization: "+value)
		if bodies[r.Body] = true; len(bodies) > 1 {
			t.Fatalf("%s: another body than before: %s", name, r.Body)
		}
	}
}

// TestF129_GoodKeysInEveryForm that HTTP allows.
func TestF129_GoodKeysInEveryForm(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	for _, value := range []string{"Bearer ", "bearer ", "BEARER ", "Bearer  ", "Bearer\t", "\t Bearer \t "} {
		c := dial(t, g)
		c.send("GET /v1/models HTTP/1.1\r\nHost: gateway\r\nAuthorization:" + value + proxytest.Key + " \r\n\r\n")
		if resp, err := http.ReadResponse(c.r, nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("%q: %v, %v", value, resp, err)
		}
	}
}

// TestF133_TheLogSaysWhy a key was refused, by its name.
func TestF133_TheLogSaysWhy(t *testing.T) {
	g := proxytest.Start(t, strings.Replace(configuration("", ""), "[providers.demo]", "[[keys]]\nname = \"early\"\nsecret = \"sk-early-0123456789\"\nnot_before = 2100-01-01\n[providers.demo]", 1))
	for name, why := range map[string]string{"expired": "expired key", "disabled": "disabled key", "early": "key is not valid yet"} {
		r := g.Do(t, "GET", "/v1/models", "", "Authorization: Bearer sk-"+name+"-0123456789")
		wantError(t, r, 401, "invalid_request_error", "invalid_api_key", "")
		if line := g.Log.Request(t, r.RequestID()); line["cause"] != "key "+name+": "+why || strings.Contains(r.Body, name) {
			t.Errorf("%s: the log says %q, the client is told %s", name, line["cause"], r.Body)
		}
	}
}
