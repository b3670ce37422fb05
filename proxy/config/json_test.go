package config_test

import (
	"encoding/json"
	"testing"
)

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestOptionTablesBecomeOrderedJSON(t *testing.T) {
	c := mustParse(t, `
[router]
zeta = 1
alpha = 0x1_F
big = 9223372036854775807
f = 1.0
e = 1e300
small = 0.000000123
plugin = "router"
yes = true
text = "a\"\u0001é"
day = 2026-01-02
at = 2026-01-02T03:04:05.5+01:00
time = 03:04:05
list = [1, "x", [true, { b = 1, a = 2 }]]
empty = {}
dotted.b.c = 1
dotted.a = 2
[router.table]
x = 1
[[router.tables]]
y = 1
[[router.tables]]
[router.tables.inner]
z = 2
`)
	const want = `{"zeta":1,"alpha":31,"big":9223372036854775807,"f":1.0,"e":1e+300,"small":1.23e-07,"yes":true,"text":"a\"\u0001é",` +
		`"day":"2026-01-02","at":"2026-01-02T03:04:05.5+01:00","time":"03:04:05","list":[1,"x",[true,{"b":1,"a":2}]],"empty":{},` +
		`"dotted":{"b":{"c":1},"a":2},"table":{"x":1},"tables":[{"y":1},{"inner":{"z":2}}]}`
	if got := string(c.Router.Settings); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !json.Valid(c.Router.Settings) {
		t.Error("invalid JSON")
	}
}
