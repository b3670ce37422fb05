package failure

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// Rejection is, for the log, a provider's response with a status 4xx.
type Rejection struct {
	Provider string
	Target   string // method and URL
	Status   int
	Words    string // the provider's own: redacted, and without what they repeat of the request; "" for none
}

func (e *Rejection) Error() string {
	s := fmt.Sprintf("provider %s: %s: status %d", e.Provider, e.Target, e.Status)
	if e.Words != "" {
		s += ": " + e.Words
	}
	return s
}

// PublicCause is the part of a cause that the status may show: without words of a provider or a plugin.
func PublicCause(err error) string {
	if r, ok := errors.AsType[*Rejection](err); ok {
		bare := *r
		bare.Words = ""
		return bare.Error()
	}
	if call, ok := errors.AsType[*plugin.CallError](err); ok {
		bare := *call
		bare.Words = ""
		return bare.Error()
	}
	if up, ok := errors.AsType[*upstream.Error](err); ok {
		return up.Error()
	}
	return ""
}

// Unquoted is an error of fasthttp up to the first thing that it quotes: that is the client's, and may be its key.
func Unquoted(err error) error {
	if text, _, quotes := strings.Cut(err.Error(), `"`); quotes {
		return errors.New(strings.TrimRight(text, " :"))
	}
	return err
}
