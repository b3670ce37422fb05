package describe

import (
	"maps"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/config/fleet"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
)

// Bundle describes the node of a fleet.
func Bundle(s fleet.Status) *admin.Bundle {
	b := &admin.Bundle{
		Node: s.Node, Tags: append([]string{}, s.Tags...), Source: s.Source, Digest: s.Bundle, Trial: s.Trial, Good: s.Good, Sequence: s.Sequence, Next: s.Next,
		Expires: s.Expires, Rollbacks: s.Rollback, Refused: []admin.RefusedBundle{}, Alarms: append([]string{}, s.Alarms...),
	}
	for _, digest := range slices.Sorted(maps.Keys(s.Refused)) {
		b.Refused = append(b.Refused, admin.RefusedBundle{Digest: digest, Reason: s.Refused[digest]})
	}
	if !s.Polled.IsZero() {
		b.Polled = &s.Polled
	}
	return b
}
