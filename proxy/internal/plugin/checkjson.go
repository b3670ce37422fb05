package plugin

import (
	"errors"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// outlineBytes is how much of a document's outline an error shows.
const outlineBytes = 60

// notJSON is the error of a document that is not JSON, with the place and without content. what names the document.
func notJSON(what string, document []byte, err error) error {
	e, ok := errors.AsType[*jsondoc.SyntaxError](err)
	if !ok {
		return err
	}
	err = fmt.Errorf("%s is not JSON: %s at byte %d of %d", what, e.Reason, e.Offset, len(document))
	if outline := jsondoc.Outline(document, e.Offset, outlineBytes); outline != "" {
		err = fmt.Errorf("%w, after %s", err, outline)
	}
	return err
}

// endOfEvents is the data of the event with which streams in the format of chat completions end.
const endOfEvents = "[DONE]"

// checkJSON checks what the provider has sent, for a plugin that reads nothing but JSON: a torn event must fail the response, and
// not become text. Events without data, and the one that only marks the end, pass.
func (a *Attempt) checkJSON(what string, p []byte) error {
	if !a.EventsAreJSON || len(p) == 0 || string(p) == endOfEvents {
		return nil
	}
	err := jsondoc.Check(p)
	if err == nil {
		return nil
	}
	e := apierror.Fail(abi.FailBadAnswer, "", "", "The provider's response is not valid JSON.")
	e.Cause = notJSON(what, p, err)
	return e
}
