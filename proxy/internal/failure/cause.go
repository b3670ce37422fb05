package failure

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
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

// PublicCause returns the cause without the provider's message (telemetry.PublicError).
func (e *Rejection) PublicCause() string {
	bare := *e
	bare.Words = ""
	return bare.Error()
}

// PublicCause returns the part of a cause that the status page may show, without text from a provider or a plugin. It is
// "" for a cause of another kind.
func PublicCause(err error) string {
	if e, ok := errors.AsType[telemetry.PublicError](err); ok {
		return e.PublicCause()
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
