package shadow

import (
	"context"
	"log/slog"
	"sync"
)

// Comparison compares the response to a client with the responses to copies of its request, each as soon as both have
// ended. It counts the differences, and logs them at debug level. Log, Request and Model must be set before the first
// copy is added.
//
// A Comparison and its Copies are safe for concurrent use: the request and each copy end on goroutines of their own.
type Comparison struct {
	Log            *slog.Logger
	Request, Model string // ID of the request, and the requested model

	mu     sync.Mutex
	client *Response // nil until the response to the client has ended
	copies []*Copy
}

// Copy is a copy of a request that is sent to one target. It is created by Comparison.Add.
type Copy struct {
	comparison       *Comparison
	provider, target string
	figures          *Figures
	cancel           context.CancelCauseFunc
	response         *Response // nil until it has ended; guarded by comparison.mu
}

// Add adds a copy for a provider's target. Its differences are counted in figures, and cancel is called to cancel it.
func (c *Comparison) Add(provider, target string, figures *Figures, cancel context.CancelCauseFunc) *Copy {
	added := &Copy{comparison: c, provider: provider, target: target, figures: figures, cancel: cancel}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copies = append(c.copies, added)
	return added
}

// Empty reports whether no copy was added.
func (c *Comparison) Empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.copies) == 0
}

// Cancel cancels all copies. It is called if there will be no response to the client to compare them with.
func (c *Comparison) Cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, copied := range c.copies {
		copied.cancel(cause)
	}
}

// Finish sets the response to the client. If some copies have ended before, it returns a function that compares the
// response with theirs, otherwise nil. The comparison takes time, so it must not run on the goroutine that serves the
// client.
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

// Finish sets the response to the copy. It compares the response with the client's if that has ended; otherwise
// Comparison.Finish does that later.
func (c *Copy) Finish(copied *Response) {
	c.comparison.mu.Lock()
	c.response = copied
	client := c.comparison.client
	c.comparison.mu.Unlock()
	if client != nil {
		c.compare(client)
	}
}

// compare compares the response to the copy with the client's, counts the differences and logs them.
func (c *Copy) compare(client *Response) {
	differences := c.figures.Compare(client, c.response)
	ctx, comparison := context.Background(), c.comparison
	if !comparison.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request", comparison.Request), slog.String("model", comparison.Model), slog.String("provider", c.provider), slog.String("target", c.target),
		slog.String("differences", differences.String()),
	}
	comparison.Log.LogAttrs(ctx, slog.LevelDebug, "shadow compared", c.response.appendAttrs(client.appendAttrs(attrs, "client"), "shadow")...)
}
