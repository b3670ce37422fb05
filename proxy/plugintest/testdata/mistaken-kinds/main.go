// Command mistaken-kinds is a router that makes the mistake which the first target's provider names, and a filter that makes
// the one which the text names.
package main

import (
	"errors"

	"github.com/sluice-gateway/sluice/sdk/filter"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/router"
)

func init() {
	router.RegisterAs("mistaken-router", choose, check)
	filter.RegisterAs[texts]("mistaken-filter")
}

func main() {}

var names map[string]int

//go:noinline
func spin(n int) int {
	for i := 0; ; i++ {
		n ^= i
	}
}

func check(settings json.Value) error {
	if settings.Get("mistake").Exists() {
		return errors.New("no such mistake")
	}
	return nil
}

func choose(c *router.Choice) error {
	switch string(c.Targets[0].Provider) {
	case "panic":
		names["x"] = 1
	case "loop":
		spin(1)
	case "error":
		return errors.New("it went wrong")
	case "index":
		_ = c.Targets[len(c.Targets):][:len(c.Targets)+1]
	case "out of range":
		c.Candidate(len(c.Targets))
	case "twice":
		c.Candidate(0)
		c.Candidate(0)
	case "nothing":
	}
	return nil
}

type texts struct{}

func (texts) Text(t *filter.Text) error {
	switch string(t.Bytes()) {
	case "panic":
		names["x"] = 1
	case "loop":
		spin(1)
	case "error":
		return errors.New("it went wrong")
	case "beyond":
		t.Replace(0, 100, "")
	case "backwards":
		t.Replace(4, 6, "")
		t.Replace(0, 2, "")
	case "within é":
		t.Replace(0, len("within ")+1, "")
	case "not UTF-8":
		t.Replace(0, 3, "\xff")
	case "tag":
		t.Tag("unknown")
	}
	return nil
}
