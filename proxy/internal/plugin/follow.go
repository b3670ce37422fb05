package plugin

import (
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// followUp is a FollowUp that a call has asked for.
type followUp struct {
	FollowUp
	set bool
}

// methods are the methods of further requests.
var methods = [...]string{abi.MethodGet: "GET", abi.MethodPost: "POST", abi.MethodDelete: "DELETE"}

// NextRequest implements abi.Host.
func (c *call) NextRequest(method abi.Method, path, body []byte, pauseMs int32) abi.Status {
	if !c.beginImport(importNextRequest) {
		return abi.StatusRefused
	}
	first := c.attempt.follows == 0
	switch {
	case c.export == exportEvent:
		c.abort(KindProtocol, "not allowed in "+abi.ExportEvent+", only at the end of a response")
		return abi.StatusRefused
	case pauseMs < abi.MinPause || pauseMs > abi.MaxPause, first && c.export == exportResponse && c.number >= 300:
		return c.noteStatus(abi.StatusRefused)
	case c.attempt.follows+1 >= abi.MaxRequests:
		return c.noteStatus(abi.StatusTooLarge)
	}
	return c.noteStatus(c.readFollowUp(&c.follow, method, path, body, time.Duration(pauseMs)*time.Millisecond))
}

// CancelRequest implements abi.Host. An empty path takes back the request.
func (c *call) CancelRequest(method abi.Method, path, body []byte) abi.Status {
	if !c.beginImport(importCancelRequest) {
		return abi.StatusRefused
	}
	if len(path) == 0 {
		c.cancel = followUp{set: true}
		return abi.StatusOK
	}
	return c.noteStatus(c.readFollowUp(&c.cancel, method, path, body, 0))
}

// readFollowUp sets f, unless the request is refused.
func (c *call) readFollowUp(f *followUp, method abi.Method, path, body []byte, pause time.Duration) abi.Status {
	if !c.countOutput(len(path) + len(body) + entryCost) {
		return abi.StatusRefused
	}
	switch {
	case method < 0 || int(method) >= len(methods):
		c.ignore(int32(method))
		return abi.StatusUnknown
	case len(path) > maxPath:
		return abi.StatusTooLarge
	case method == abi.MethodGet && len(body) > 0:
		return abi.StatusRefused
	}
	c.chargeBytes(pathPasses * len(path))
	if err := checkPath(path, c.binding.paths, c.binding.credentialQuery); err != nil {
		return abi.StatusRefused
	}
	if len(body) > 0 {
		c.chargeBytes(len(body))
		if jsondoc.CheckUTF8(body) != nil {
			return abi.StatusRefused
		}
	}
	*f = followUp{FollowUp{Method: methods[method], Path: string(path), Body: append([]byte(nil), body...), Pause: pause}, true}
	return abi.StatusOK
}

// commitFollowUps sets the attempt's further requests. A response that is complete or has failed has no next one.
func (c *call) commitFollowUps() {
	a := c.attempt
	if c.cancel.set {
		a.Cancel = c.cancel.FollowUp
	}
	if c.follow.set && !c.done && c.failure == nil {
		a.Next = c.follow.FollowUp
		a.follows++
	}
}
