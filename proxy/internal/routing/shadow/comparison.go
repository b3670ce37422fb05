package shadow

import (
	"context"
	"log/slog"
	"sync"
)

// Comparison compares the response to a client with those to the copies of its request, each once both have ended. What differs is counted,
// and at debug level logged. Log, Request and Model do not change once there is a copy.
//
// It is safe for concurrent use: copies end on goroutines of their own, and so may the request.
type Comparison struct {
	Log            *slog.Logger
	Request, Model string // the request's ID, and the model that it asks for

	mu     sync.Mutex
	client *Response // nil: not known yet, or never
	copies []*Copy
}

// Copy is a copy of a request, to one target. Comparison.Add returns one.
type Copy struct {
	of               *Comparison
	provider, target string
	figures          *Figures
	cancel           context.CancelCauseFunc
	response         *Response // nil until it has ended; guarded by of.mu
}

// Add adds a copy that a provider's target is sent: figures count what it differs in, and cancel ends it.
func (c *Comparison) Add(provider, target string, figures *Figures, cancel context.CancelCauseFunc) *Copy {
	added := &Copy{of: c, provider: provider, target: target, figures: figures, cancel: cancel}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copies = append(c.copies, added)
	return added
}

// Empty reports whether there is no copy to compare with.
func (c *Comparison) Empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.copies) == 0
}

// Cancel cancels all copies, which there is nothing to compare with.
func (c *Comparison) Cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, copied := range c.copies {
		copied.cancel(cause)
	}
}

// Finish says what the response to the client was. It returns what compares it with those that copies have had before, and nil if none
// has: that takes its time, which is not the client's.
func (c *Comparison) Finish(client *Response) (compare func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.client = client
	var ended []*Copy
	for _, copied := range c.copies {
		if copied.response != nil {
			ended = append(ended, copied)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	return func() {
		for _, copied := range ended {
			copied.compare(client)
		}
	}
}

// Finish says what the response to the copy was, and compares it with that to the client if that is known. Otherwise the
// comparison waits for Comparison.Finish.
func (c *Copy) Finish(copied *Response) {
	c.of.mu.Lock()
	c.response = copied
	client := c.of.client
	c.of.mu.Unlock()
	if client != nil {
		c.compare(client)
	}
}

// compare compares two responses that have ended.
func (c *Copy) compare(client *Response) {
	differences := c.figures.Compare(client, c.response)
	ctx, of := context.Background(), c.of
	if !of.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request", of.Request), slog.String("model", of.Model), slog.String("provider", c.provider), slog.String("target", c.target),
		slog.String("differences", differences.String()),
	}
	of.Log.LogAttrs(ctx, slog.LevelDebug, "shadow compared", c.response.appendAttrs(client.appendAttrs(attrs, "client"), "shadow")...)
}
