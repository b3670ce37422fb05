package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{Package: "."}

// input is what the gateway shows a router: a request of this many bytes and a target for each letter, a u standing for
// one that is unhealthy.
func input(bytes int, targets string) []byte {
	var list []string
	for i, c := range targets {
		list = append(list, fmt.Sprintf(`{"index":%d,"provider":"p","model":"m%d","healthy":%v}`, i, i, c != 'u'))
	}
	return fmt.Appendf(nil, `{"summary":{"body":%d},"targets":[%s]}`, bytes, strings.Join(list, ","))
}

func TestOrder(t *testing.T) {
	h := plugintest.Host(t)
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		p := suite.Load(t, h, form)
		b, err := p.Bind(t.Context(), plugintest.BindingConfig{Name: "router", Settings: []byte(`{"long":1000}`)})
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			bytes         int
			targets, want string
		}{
			{999, "hhh", "[0 1 2] short"},
			{1000, "hhh", "[2 1 0] long"},
			{10, "uhh", "[1 2 0] short"},
			{5000, "hhu", "[1 0 2] long"},
			{10, "uu", "[0 1] short"},
			{10, "h", "[0] short"},
		} {
			order, why, err := b.Choose(context.Background(), input(test.bytes, test.targets), len(test.targets))
			if got := fmt.Sprint(order, " ", why); err != nil || got != test.want {
				t.Errorf("%v: %d bytes, targets %s: %s, %v; want %s", form, test.bytes, test.targets, got, err, test.want)
			}
		}
	}
}

func TestRejectsInvalidSettings(t *testing.T) {
	h := plugintest.Host(t)
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		p := suite.Load(t, h, form)
		for _, settings := range []string{`{}`, `{"long":"1000"}`, `{"long":0}`, `{"long":1.5}`} {
			_, err := p.Bind(t.Context(), plugintest.BindingConfig{Name: "router", Settings: []byte(settings)})
			if err == nil || !strings.Contains(err.Error(), "long is missing") {
				t.Errorf("%v: settings %s: %v", form, settings, err)
			}
		}
	}
}
