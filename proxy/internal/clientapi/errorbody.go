package clientapi

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// AppendErrorBody appends the body of an error response in the form of the OpenAI APIs.
func AppendErrorBody(dst []byte, e *apierror.Error) []byte {
	dst = appendErrorMember(append(dst, `{"error":{`...), "message", e.Message, false)
	dst = appendErrorMember(append(dst, ','), "type", string(e.Kind), false)
	dst = appendErrorMember(append(dst, ','), "param", e.Param, true)
	dst = appendErrorMember(append(dst, ','), "code", e.Code, true)
	if e.Provider != "" {
		dst = appendErrorMember(append(dst, ','), "provider", e.Provider, false)
	}
	if e.UpstreamStatus != 0 {
		dst = append(dst, `,"upstream_status":`...)
		dst = strconv.AppendInt(dst, int64(e.UpstreamStatus), 10)
	}
	if e.UpstreamRequestID != "" {
		dst = appendErrorMember(append(dst, ','), "upstream_request_id", e.UpstreamRequestID, false)
	}
	return append(dst, `}}`...)
}

// appendErrorMember appends a string member. If nullable is set, an empty value becomes null.
func appendErrorMember(dst []byte, name, value string, nullable bool) []byte {
	dst = append(append(append(dst, '"'), name...), `":`...)
	if nullable && value == "" {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = jsondoc.AppendEscaped(dst, []byte(value))
	return append(dst, '"')
}
