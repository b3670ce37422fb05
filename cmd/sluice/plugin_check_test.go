package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestFormatTOML(t *testing.T) {
	for _, test := range []struct{ options, want string }{
		{`{"long":1000}`, `{ long = 1000 }`},
		{`{"b":true,"a":[1.5,"x\"y"],"none":null}`, `{ a = [1.5, "x\"y"], b = true }`},
		{`{"a b":{"":"x"},"c":{}}`, `{ "a b" = { "" = "x" }, c = {  } }`},
	} {
		var options map[string]any
		if err := json.Unmarshal([]byte(test.options), &options); err != nil {
			t.Fatal(err)
		}
		if got := formatTOML(options); got != test.want {
			t.Errorf("%s: %s, want %s", test.options, got, test.want)
		}
	}
}

func TestWrap(t *testing.T) {
	got := strings.Join(wrap([]string{"sluice:", "log", "fail", "body_set", "request_path"}, 20), "|")
	if want := "sluice: log, fail,|body_set,|request_path"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
