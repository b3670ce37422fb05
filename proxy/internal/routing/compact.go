package routing

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// appendCompact appends the compact input of a router plugin. See sdk/abi/README.md for the layout.
func (d *Decision) appendCompact(dst []byte, r *Request, now time.Time) []byte {
	parts := d.router.Parts
	var flags abi.RouterFlags
	for _, f := range [...]struct {
		set  bool
		flag abi.RouterFlags
	}{{r.Stream, abi.RouterStream}, {r.IncludeUsage, abi.RouterIncludeUsage}, {d.Affinity.Known, abi.RouterAffinity}, {r.Explained, abi.RouterExplained}} {
		if f.set {
			flags |= f.flag
		}
	}
	var conversation, user Hash
	if parts&abi.RouterHashes != 0 {
		conversation, user = r.Identity.Conversation(), r.Identity.User()
	}
	head := len(dst)
	dst = u32(u32(u32(u32(dst, abi.RouterHeadSize), abi.RouterRecordSize), len(d.order)), int(flags))
	dst = u32(u32(dst, int(r.Flags)), 0) // the length of the document is set below
	dst = u64(u64(u64(u64(dst, r.Random), d.Affinity.Sum), conversation.Sum), user.Sum)
	dst = i64(i64(i64(dst, r.PromptTokens), r.MaxTokens), int64(r.Size))
	dst = u32(u32(u32(u32(dst, r.Messages), r.Images), r.Tools), 0)
	for _, i := range d.order {
		dst = d.appendRecord(dst, i, r, now)
	}
	for _, i := range d.order {
		t := &d.policy.Targets[i]
		dst = append(append(append(dst, t.Provider...), t.Model...), d.compactOptions(t)...)
		for _, m := range d.candidates[i].measured {
			dst = f64(append(u32(dst, len(m.Name)), m.Name...), m.Value)
		}
	}
	if parts&abi.RouterDocument != 0 {
		start := len(dst)
		dst = append(d.appendSummary(dst, r), '}')
		binary.LittleEndian.PutUint32(dst[head+20:], uint32(len(dst)-start))
	}
	return dst
}

// appendRecord appends the target with an index in the policy.
func (d *Decision) appendRecord(dst []byte, index int, r *Request, now time.Time) []byte {
	t, c := &d.policy.Targets[index], &d.candidates[index]
	s := t.Stats.Snapshot(now)
	var flags abi.TargetFlags
	if t.Fallback {
		flags |= abi.TargetFallback
	}
	if c.ready {
		flags |= abi.TargetHealthy
	}
	if t.CachesPrompts {
		flags |= abi.TargetCachesPrompts
	}
	if d.estimateCost(index, r, s.CachedShare) {
		flags |= abi.TargetPriced
	}
	dst = u32(u32(u32(u32(dst, int(flags)), len(t.Provider)), len(t.Model)), len(d.compactOptions(t)))
	dst = i64(i64(i64(dst, int64(t.Weight)), int64(t.Priority)), s.Inflight)
	dst = i64(i64(dst, s.Latency.Milliseconds()), limitedFor(&s, now))
	dst = f64(f64(f64(dst, s.ErrorRate), s.TokensPerSecond), s.CachedShare)
	dst = f64(f64(f64(dst, t.InputPrice), t.OutputPrice), float64(c.cost)/1e9)
	size := 0
	if d.router.Parts&abi.RouterMeasured != 0 {
		c.measured = t.Measured.Load(now)
	}
	for _, m := range c.measured {
		size += 4 + len(m.Name) + 8
	}
	return u32(u32(dst, len(c.measured)), size)
}

// compactOptions returns the options of a target in the compact input.
func (d *Decision) compactOptions(t *Target) []byte {
	switch {
	case d.router.Parts&abi.RouterDocument == 0:
		return nil
	case len(t.Options) == 0:
		return noOptions
	}
	return t.Options
}

var noOptions = []byte("{}")

func u32(dst []byte, n int) []byte     { return binary.LittleEndian.AppendUint32(dst, uint32(n)) }
func u64(dst []byte, n uint64) []byte  { return binary.LittleEndian.AppendUint64(dst, n) }
func i64(dst []byte, n int64) []byte   { return u64(dst, uint64(n)) }
func f64(dst []byte, n float64) []byte { return u64(dst, math.Float64bits(n)) }
