package messages

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// AppendError appends the body of an error response. The API has no member for the path of the offending parameter, so
// the path is prefixed to the message.
func AppendError(dst []byte, e *apierror.Error, requestID string) []byte {
	dst = append(append(append(dst, `{"type":"error","error":{"type":"`...), errorType(e)...), `","message":"`...)
	message := contextMessage(e)
	place := e.Param
	switch e.Code {
	case codeModelNotFound:
		place = "model"
	case codeContextLength:
		place = ""
	}
	if place != "" && !strings.HasPrefix(message, place) {
		dst = jsondoc.AppendEscaped(dst, []byte(place))
		dst = append(dst, ": "...)
	}
	dst = jsondoc.AppendEscaped(dst, []byte(message))
	dst = append(dst, '"')
	if strings.HasPrefix(e.Code, threadCodes) {
		dst = jsondoc.AppendEscaped(append(dst, `,"details":{"error_code":"`...), []byte(e.Code))
		dst = append(dst, `"}`...)
	}
	dst = append(dst, '}')
	if requestID != "" {
		dst = append(dst, `,"request_id":"`...)
		dst = jsondoc.AppendEscaped(dst, []byte(requestID))
		dst = append(dst, '"')
	}
	return append(dst, '}')
}
