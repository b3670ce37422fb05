package plugin

import (
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// openAIReader reads the chunks that a plugin passes to openai_event. Its state cannot be rolled back, so a call that
// has used it is not retried.
type openAIReader struct {
	options native.Options
	reader  *native.Reader // made at the first use
	dirty   bool           // used since the last commit, by the current call or a failed one
}

// reset makes the reader ready for another response.
func (r *openAIReader) reset(o native.Options) {
	r.options, r.dirty = o, false
	if r.reader != nil {
		r.reader.Reset(o)
	}
}

// OpenAIEvent implements abi.Host. A chunk that cannot be read is rejected and adds no events, so that the plugin can
// decide what to do about it.
func (c *call) OpenAIEvent(p []byte) abi.Status {
	if !c.beginImport(importOpenAIEvent) || !c.countOutput(len(p)+entryCost) {
		return abi.StatusRefused
	}
	r := &c.attempt.reader
	if r.reader == nil {
		r.reader = new(native.Reader)
		r.reader.Reset(r.options)
	}
	r.dirty = true
	c.chargeBytes(openAIPasses * len(p))
	n, failure := len(c.batch.Events), c.batch.Failure()
	if err := r.reader.ReadChunk(p, &c.batch); err != nil {
		c.batch.Events = c.batch.Events[:n]
		c.batch.Fail(failure)
		return c.noteStatus(abi.StatusRefused)
	}
	for i := range c.batch.Events[n:] {
		switch ev := &c.batch.Events[n+i]; ev.Kind {
		case response.EventToolCall:
			c.tools = append(c.tools, toolKey{ev.Choice, ev.Key})
		case response.EventDone:
			c.done = c.done || ev.Code == abi.DoneNow
		}
	}
	if e := c.batch.Failure(); e != failure {
		e.Code = string(c.sanitize([]byte(e.Code), abi.MaxName))
		e.Param = string(c.sanitize([]byte(e.Param), abi.MaxName))
		e.Message = string(c.sanitize([]byte(e.Message), maxFailMessage))
		c.failure = e
	}
	return abi.StatusOK
}

// openAIPasses is the price of parsing a chunk in addition to reading it, in passes over its bytes.
const openAIPasses = 4
