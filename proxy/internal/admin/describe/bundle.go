package describe

import (
	"github.com/sluice-gateway/sluice/proxy/config/fleet"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
)

// Bundle describes the node of a fleet.
func Bundle(s fleet.Status) *admin.Bundle {
	b := &admin.Bundle{
		Node: s.Node, Tags: s.Tags, Source: s.Source, Digest: s.Bundle, Trial: s.Trial, Good: s.Good, Sequence: s.Sequence, Next: s.Next,
		Expires: s.Expires, Rollbacks: s.Rollback, Refused: s.Refused, Alarms: s.Alarms,
	}
	if !s.Polled.IsZero() {
		b.Polled = &s.Polled
	}
	return b
}
