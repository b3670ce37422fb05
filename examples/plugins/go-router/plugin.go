// Command go-router is a routing policy: short requests try the targets in the configured order, long ones in reverse
// order. So the model with the largest context must be the last target.
//
// The setting long is the minimum size of a long request in bytes. Unhealthy targets are always tried last.
package main

import (
	"errors"

	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/router"
)

func init() { router.Register(choose, check) }

func main() {}

// choose makes each target a candidate, best first.
func choose(c *router.Choice) error {
	long, _ := c.Settings.Get("long").Int()
	for _, healthy := range [...]bool{true, false} {
		for i := range c.Targets {
			if c.BodySize >= long {
				i = len(c.Targets) - 1 - i
			}
			if c.Targets[i].Healthy == healthy {
				c.Candidate(i)
			}
		}
	}
	if c.BodySize >= long {
		c.Explain("long")
	} else {
		c.Explain("short")
	}
	return nil
}

// check rejects settings without long.
func check(settings json.Value) error {
	if long, ok := settings.Get("long").Int(); !ok || long < 1 {
		return errors.New("long is missing: want the minimum size of a long request, in bytes")
	}
	return nil
}
