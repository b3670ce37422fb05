package plugin

import (
	"fmt"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// A mistake is something in a successful call that the contract accepts, but that the plugin's author most likely did
// not mean. Mistakes do not change what the client receives. The tools for authors report all of them; the gateway logs
// only lost output, once for each plugin.

// refusalMeanings are what a refusal by an import means, for those whose status a plugin should not ignore. All others
// return statuses that callers often have no use for, such as that a member to delete does not exist.
var refusalMeanings = map[int]string{
	importRequestPath:   "the path is not used",
	importRequestHeader: "the header is not sent",
	importRequestString: "nothing was written: the text is not UTF-8",
	importBodySet:       "nothing was set: the client's body has no such path, or the value is not JSON",
	importToolAlias:     "the alias is not used",
	importAnswer:        "the framing and the dialect are not used",
	importToolArguments: "the arguments are lost: no such tool call was opened",
	importExtra:         "the member is lost: its name is reserved, or its value is not JSON",
	importStateSet:      fmt.Sprintf("the state is not kept: it is larger than %d bytes", abi.MaxState),
	importNextRequest:   "no further request is made: its path, method, body or pause is not allowed, or it is one too many",
	importCancelRequest: "nothing is sent if the client leaves: the path, method or body is not allowed",
	importOpenAIEvent:   "the event is lost: it is not in the chat completions format",
	importTag:           "the tag is not set",
	importReplace:       "the text is not replaced",
	importHold:          "the text is not held",
}

// importSet is a set of imports, by index.
type importSet uint64

var _ [64 - len(abi.Imports)]struct{} // every index fits

// noteStatus records whether the running import has refused what the plugin asked for, and returns its status. Imports
// whose last accepted value is used call it for those, too.
func (c *call) noteStatus(s abi.Status) abi.Status {
	if bit := importSet(1) << c.running; s == abi.StatusOK {
		c.refusals &^= bit
	} else {
		c.refusals |= bit
	}
	return s
}

// noteMistakes reports the mistakes of a call that has succeeded.
func (c *call) noteMistakes() {
	if c.refusals != 0 && c.failure == nil {
		c.noteRefusals()
	}
	for _, ignored := range c.ignored {
		c.noteMistake(ignored + " is not in this version of the ABI: the call had no effect")
	}
	if c.export == exportResponse && c.number >= 300 && c.failure == nil && !c.follow.set {
		c.noteMistake(fmt.Sprintf("the plugin reports no failure for status %d: call fail, with the message in the body", c.number))
	}
}

// noteRefusals reports refused imports, whose status the plugin has ignored.
func (c *call) noteRefusals() {
	for i := range abi.Imports {
		meaning, important := refusalMeanings[i]
		if !important || c.refusals&(1<<i) == 0 {
			continue
		}
		text := "the status of " + abi.Imports[i].Name + " was ignored: " + meaning
		if i == importRequestPath || i == importRequestHeader || i == importAnswer || i == importTag || i == importReplace || i == importHold {
			if refused := c.refusedRequest(); refused != nil {
				text += ": " + refused.Error()
			}
		}
		c.noteMistake(text)
	}
}

// dropAfterDone removes what follows done(0) in the call, except token counts, which it moves before it: the provider
// charges for the tokens, and nobody else will report them.
func (c *call) dropAfterDone() {
	events := c.batch.Events
	done := slices.IndexFunc(events, func(e response.Event) bool { return e.Kind == response.EventDone && e.Code == abi.DoneNow })
	if done == len(events)-1 {
		return
	}
	var usage, lost bool
	kept := append([]response.Event(nil), events[:done]...)
	for _, e := range events[done+1:] {
		switch {
		case e.Kind == response.EventUsage:
			kept, usage = append(kept, e), true
		case e.Kind != response.EventDone:
			lost = true
		}
	}
	c.batch.Events = append(events[:0], append(kept, events[done])...)
	if usage {
		c.noteMistake("token counts after done(0) count, but only in the same call: report them before it")
	}
	if lost {
		const text = "everything after done(0) except token counts is dropped: call done last"
		c.noteMistake(text)
		c.plugin.noteOnce(&c.plugin.mistakes, c.binding, "plugin output lost", c.export.String()+": "+text)
	}
}

// noteMistake reports a mistake to the caller. Texts must not contain parts of requests or responses.
func (c *call) noteMistake(text string) {
	text = c.export.String() + ": " + text
	var list *[]string
	switch {
	case c.attempt != nil:
		list = &c.attempt.Mistakes
	case c.filtering != nil:
		list = &c.filtering.Mistakes
	default:
		return
	}
	if len(*list) < maxNoted && !slices.Contains(*list, text) {
		*list = append(*list, text)
	}
}
