package plugin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// refusal is a path, tag or header name that the host has refused in a call. Its buffer is reused for the next call.
type refusal struct {
	reason error // nil if nothing was refused, and for tags
	text   []byte
}

// set records a refused text, truncated to abi.MaxName.
func (r *refusal) set(reason error, text []byte) {
	r.reason, r.text = reason, append(r.text[:0], text[:min(len(text), abi.MaxName)]...)
}

// refusedRequest explains which path, header or filter operation the host has refused in the call, why, and what is
// allowed. It returns nil if there was none. A refused path does not matter if another one was accepted afterwards.
func (c *call) refusedRequest() error {
	switch {
	case c.refused.reason != nil:
		err := fmt.Errorf("path %q: %w", c.quote(c.refused.text), c.refused.reason)
		if c.refused.reason == errPathRules {
			paths := make([]string, len(c.binding.paths))
			for i, p := range c.binding.paths {
				paths[i] = "/" + strings.Join(p, "/")
			}
			err = fmt.Errorf("%w: %s", err, listAllowed("paths", paths))
		}
		return err
	case c.refusedHeader.reason != nil:
		err := fmt.Errorf("header %q: %w", c.quote(c.refusedHeader.text), c.refusedHeader.reason)
		if c.refusedHeader.reason == errHeaderRule {
			err = fmt.Errorf("%w: %s", err, listAllowed("headers", slices.Sorted(maps.Keys(c.binding.headers))))
		}
		return err
	case c.refusals&(1<<importAnswer) != 0:
		return c.refusedAnswer
	}
	return c.refusedFilter()
}

// refuseAnswer records why the import answer was refused, and returns status.
func (c *call) refuseAnswer(status abi.Status, format string, args ...any) abi.Status {
	c.refusedAnswer = fmt.Errorf("answer: "+format, args...)
	return c.noteStatus(status)
}

// filterRefusal is the last operation of a filter that the host has refused.
type filterRefusal struct {
	refused  bool
	imp      int // index in abi.Imports
	from, to int // arguments of replace; for hold, to is the number of bytes
}

// refuseFilter records that the running import was refused, with its arguments for refusedFilter, and returns status.
func (c *call) refuseFilter(status abi.Status, from, to int) abi.Status {
	c.filterRefused = filterRefusal{true, c.running, from, to}
	return c.noteStatus(status)
}

// refusedFilter explains which operation of a filter the host has refused and why. It returns nil if there was none.
func (c *call) refusedFilter() error {
	r, n := &c.filterRefused, len(c.first)+len(c.second)
	switch {
	case !r.refused:
		return nil
	case r.imp == importTag:
		return fmt.Errorf("tag %q: not allowed: the filter has tags = %q", c.quote(c.refused.text), c.filtering.Tags)
	case r.imp == importHold:
		return fmt.Errorf("hold of %d bytes: want 0 to %d, not overlapping a replacement", r.to, abi.MaxHold)
	}
	return fmt.Errorf("replace of bytes %d to %d of %d, of which %d are held: want ranges in ascending order at character boundaries, and UTF-8 text", r.from, r.to, n, c.hold)
}

// maxAllowed is the maximum number of allowed paths or headers that an error lists.
const maxAllowed = 8

// listAllowed formats the allowed values of a provider's key as in the configuration.
func listAllowed(key string, values []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "the provider has %s = [", key)
	for i, v := range values {
		switch {
		case i == maxAllowed:
			fmt.Fprintf(&b, ", … %d more", len(values)-i)
		case i < maxAllowed && i > 0:
			fmt.Fprintf(&b, ", %q", v)
		case i == 0:
			fmt.Fprintf(&b, "%q", v)
		}
	}
	b.WriteByte(']')
	return b.String()
}

// refusedHeaderReason returns why a plugin may not set a header, by its name in lower case.
func (c *call) refusedHeaderReason(lower string) error {
	if mayNeverSet(lower) {
		return errHeaderNever
	}
	return errHeaderRule
}

var (
	errHeaderRule  = errors.New("not allowed")
	errHeaderNever = errors.New("reserved: no plugin may set it")
	errHeaderLong  = fmt.Errorf("the name is longer than %d bytes or the value is longer than %d", abi.MaxName, maxHeaderValue)
)
