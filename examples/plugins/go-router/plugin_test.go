package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{Package: "."}

// input returns the router's input: a request with a body of this size, and a target for each letter of targets, where
// u is an unhealthy one.
func input(bytes int, targets string) []byte {
	var list []string
	for i, c := range targets {
		list = append(list, fmt.Sprintf(`{"index":%d,"provider":"p","model":"m%d","healthy":%v}`, i, i, c != 'u'))
	}
	return fmt.Appendf(nil, `{"summary":{"body":%d},"targets":[%s]}`, bytes, strings.Join(list, ","))
}

func TestOrder(t *testing.T) {
	suite.EachForm(t, `{"long":1000}`, func(t *testing.T, b *plugintest.Binding) {
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
			order, why, err := b.Choose(input(test.bytes, test.targets), len(test.targets))
			if got := fmt.Sprint(order, " ", why); err != nil || got != test.want {
				t.Errorf("%d bytes, targets %s: got %s, error %v, want %s", test.bytes, test.targets, got, err, test.want)
			}
		}
	})
}

func TestSettings(t *testing.T) {
	const missing = "long is missing"
	suite.TestSettings(t, map[string]string{
		`{"long":1}`: "", `{}`: missing, `{"long":"1000"}`: missing, `{"long":0}`: missing, `{"long":1.5}`: missing,
	})
}
