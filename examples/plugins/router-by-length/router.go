// Command router-by-length is a routing policy: short requests go to the targets in the order of the configuration, long
// ones to the last target first, which is where the configuration puts the model with the large context.
//
// Its setting is long, the size in bytes from which on a request is a long one. Targets that are unhealthy are tried
// last, whatever the size.
package main

import (
	"errors"

	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/router"
)

func init() { router.Register(choose, check) }

func main() {}

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

// check refuses a configuration that does not say what long is.
func check(settings json.Value) error {
	if long, ok := settings.Get("long").Int(); !ok || long < 1 {
		return errors.New("long is missing: the size in bytes of a long request")
	}
	return nil
}
