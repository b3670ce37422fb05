// Command echo is a router that rejects each request with a message of what it knows about it. The setting parts is the
// sum of the parts that it reads.
package main

import (
	"fmt"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/router"
)

func init() {
	router.RegisterPolicy("", func(settings json.Value) (router.Policy, error) {
		parts, _ := settings.Get("parts").Int()
		return policy(parts), nil
	})
}

func main() {}

// policy is the parts that the router reads.
type policy abi.RouterParts

// Reads implements router.Policy.
func (p policy) Reads() abi.RouterParts { return abi.RouterParts(p) }

// Choose implements router.Policy.
func (p policy) Choose(c *router.Choice) error {
	s := &c.Summary
	text := fmt.Sprintf("%s %x %t %t %x %d %x %t %d %d %d %d %d\n", c.Settings, s.Random, s.Stream, s.IncludeUsage, s.Flags, s.BodySize, c.Affinity, c.HasAffinity,
		c.PromptTokens, c.MaxTokensAsked, c.Messages, c.Images, c.Tools)
	if p.Reads()&router.Hashes != 0 {
		text += fmt.Sprintf("%x %x\n", c.Conversation, c.User)
	}
	document := p.Reads()&router.Document != 0
	if document {
		text += fmt.Sprintf("%s %d %d %s %s %d %d %d %d %s %s %s %s %s %s %s %s\n", s.RequestID, s.Time, s.Attempt, s.Model, s.Target, s.MaxTokens, s.DefaultMaxTokens,
			s.Form, s.ClientForm, s.Betas, s.Tags, s.Options, c.Key, c.Team, c.KeyTags, c.Metadata, c.Headers)
	}
	for _, t := range c.Targets {
		// The document has these averages rounded.
		text += fmt.Sprintf("%s %s %d %d %t %t %d %d %.1f %g %g %d %.0f %.1f %t", t.Provider, t.Model, t.Weight, t.Priority, t.Fallback, t.Healthy, t.InFlight,
			t.Latency, t.ErrorRate, t.InputPrice, t.OutputPrice, t.LimitedFor, t.TokensPerSecond, t.CachedShare, t.CachesPrompts)
		if p.Reads()&router.Costs != 0 {
			text += fmt.Sprintf(" %g %t", t.ExpectedCost, t.Priced)
		}
		if p.Reads()&router.Measured != 0 {
			for _, m := range t.Measurements {
				text += fmt.Sprintf(" %s=%g", m.Name, m.Value)
			}
		}
		if document {
			text += fmt.Sprintf(" %s", t.Options)
		}
		text += "\n"
	}
	return &sdk.Failure{Kind: abi.FailDenied, Message: text}
}
