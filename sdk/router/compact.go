package router

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

var errCompact = errors.New("the gateway's compact input is not valid")

// isCompact distinguishes the compact input from the document. It begins with the size of its head, whose upper bytes
// are zero.
func isCompact(input []byte) bool {
	return len(input) >= 4 && binary.LittleEndian.Uint32(input) < 1<<16
}

// minRecord is the size of a record in version 1.6, which has no measurements.
const minRecord = 104

// readCompact reads the compact input, as specified in the section "Compact input" of sdk/abi/README.md, and returns
// the document in it. The names of the targets share the input's memory.
func (c *Choice) readCompact(input []byte) (document []byte, ok bool) {
	if len(input) < abi.RouterHeadSize {
		return nil, false
	}
	h := input[:abi.RouterHeadSize]
	size, record, n := uint64(u32(h, 0)), uint64(u32(h, 4)), uint64(u32(h, 8))
	if size < abi.RouterHeadSize || record < minRecord || record > 1<<16 || size+record*n > uint64(len(input)) {
		return nil, false
	}
	flags := abi.RouterFlags(u32(h, 12))
	c.Stream, c.IncludeUsage = flags&abi.RouterStream != 0, flags&abi.RouterIncludeUsage != 0
	c.HasAffinity, c.Unexplained = flags&abi.RouterAffinity != 0, flags&abi.RouterExplained == 0
	c.Flags = sdk.Flags(u32(h, 16))
	c.Random, c.Affinity, c.Conversation, c.User = u64(h, 24), u64(h, 32), u64(h, 40), u64(h, 48)
	c.PromptTokens, c.MaxTokensAsked, c.BodySize = int64(u64(h, 56)), int64(u64(h, 64)), int64(u64(h, 72))
	c.Messages, c.Images, c.Tools = int64(u32(h, 80)), int64(u32(h, 84)), int64(u32(h, 88))
	if uint64(cap(c.Targets)) < n {
		c.Targets = make([]Target, n)
	}
	c.Targets = c.Targets[:n]
	records, texts := input[size:], input[size+record*n:]
	for i := range c.Targets {
		r := records[uint64(i)*record:][:record]
		t := &c.Targets[i]
		flags := abi.TargetFlags(u32(r, 0))
		lengths := [4]uint64{uint64(u32(r, 4)), uint64(u32(r, 8)), uint64(u32(r, 12))}
		if record >= abi.RouterRecordSize {
			lengths[3] = uint64(u32(r, 108))
		}
		if lengths[0]+lengths[1]+lengths[2]+lengths[3] > uint64(len(texts)) {
			return nil, false
		}
		t.Provider, texts = texts[:lengths[0]], texts[lengths[0]:]
		t.Model, texts = texts[:lengths[1]], texts[lengths[1]:]
		t.Options, texts = texts[:lengths[2]], texts[lengths[2]:]
		if lengths[3] > 0 {
			if !t.readMeasurements(texts[:lengths[3]], u32(r, 104)) {
				return nil, false
			}
			texts = texts[lengths[3]:]
		}
		t.Fallback, t.Healthy = flags&abi.TargetFallback != 0, flags&abi.TargetHealthy != 0
		t.CachesPrompts, t.Priced = flags&abi.TargetCachesPrompts != 0, flags&abi.TargetPriced != 0
		t.Weight, t.Priority, t.InFlight = int64(u64(r, 16)), int64(u64(r, 24)), int64(u64(r, 32))
		t.Latency, t.LimitedFor = int64(u64(r, 40)), int64(u64(r, 48))
		t.ErrorRate, t.TokensPerSecond, t.CachedShare = f64(r, 56), f64(r, 64), f64(r, 72)
		t.InputPrice, t.OutputPrice, t.ExpectedCost = f64(r, 80), f64(r, 88), f64(r, 96)
	}
	document = texts
	if uint64(u32(h, 20)) != uint64(len(document)) {
		return nil, false
	}
	return document, true
}

// readMeasurements reads n measurements, whose names share the memory of p.
func (t *Target) readMeasurements(p []byte, n uint32) bool {
	t.Measurements = make([]Measurement, 0, min(n, maxMeasurements))
	for range n {
		if len(p) < 4 || uint64(len(p)) < 4+uint64(u32(p, 0))+8 {
			return false
		}
		name, value := p[4:4+u32(p, 0)], p[4+u32(p, 0):]
		t.Measurements = append(t.Measurements, Measurement{name, f64(value, 0)})
		p = value[8:]
	}
	return len(p) == 0
}

func u32(p []byte, at int) uint32  { return binary.LittleEndian.Uint32(p[at:]) }
func u64(p []byte, at int) uint64  { return binary.LittleEndian.Uint64(p[at:]) }
func f64(p []byte, at int) float64 { return math.Float64frombits(u64(p, at)) }
