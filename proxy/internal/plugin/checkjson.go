package plugin

import (
	"errors"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// outlineBytes is the maximum length of the outline that an error shows of a document.
const outlineBytes = 60

// notJSON returns the error for a document that is not JSON. It has the offset and an outline but no content, and
// refers to the document as subject.
func notJSON(subject string, document []byte, err error) error {
	e, ok := errors.AsType[*jsondoc.SyntaxError](err)
	if !ok {
		return err
	}
	err = fmt.Errorf("%s is not JSON: %s at byte %d of %d", subject, e.Reason, e.Offset, len(document))
	if outline := jsondoc.Outline(document, e.Offset, outlineBytes); outline != "" {
		err = fmt.Errorf("%w, after %s", err, outline)
	}
	return err
}

// endOfEvents is the data of the last event of a chat completions stream.
const endOfEvents = "[DONE]"

// checkJSON checks that a response or event of the provider is JSON, for a plugin that has declared that it reads only
// JSON: a truncated event must fail the response instead of being taken for text. Events without data and the end
// marker pass.
func (a *Attempt) checkJSON(subject string, p []byte) error {
	if !a.EventsAreJSON || len(p) == 0 || string(p) == endOfEvents {
		return nil
	}
	err := jsondoc.Check(p)
	if err == nil {
		return nil
	}
	e := apierror.Fail(abi.FailBadAnswer, "", "", "The provider's response is not valid JSON.")
	e.Cause = notJSON(subject, p, err)
	return e
}
