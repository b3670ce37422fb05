package failure

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// Rejection describes, for the log, a provider's response with a 4xx status.
type Rejection struct {
	Provider string
	Target   string // method and URL
	Status   int
	Words    string // the provider's error text, redacted and without quotes of the request; may be empty
}

func (e *Rejection) Error() string {
	s := fmt.Sprintf("provider %s: %s: status %d", e.Provider, e.Target, e.Status)
	if e.Words != "" {
		s += ": " + e.Words
	}
	return s
}

// PublicCause returns the part of a cause that the status page may show, without text from a provider or a plugin.
func PublicCause(err error) string {
	if r, ok := errors.AsType[*Rejection](err); ok {
		bare := *r
		bare.Words = ""
		return bare.Error()
	}
	if call, ok := errors.AsType[*plugin.CallError](err); ok {
		bare := *call
		bare.GuestMessage = ""
		return bare.Error()
	}
	if up, ok := errors.AsType[*upstream.Error](err); ok {
		return up.Error()
	}
	return ""
}

// Unquoted returns an error of fasthttp, cut before the first quotation, which is the client's text and may be its key.
func Unquoted(err error) error {
	if text, _, quotes := strings.Cut(err.Error(), `"`); quotes {
		return errors.New(strings.TrimRight(text, " :"))
	}
	return err
}
