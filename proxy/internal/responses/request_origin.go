package responses

import (
	"strconv"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// origin is where a part of the chat completions request comes from.
type origin struct {
	kind        originKind
	index, part int32 // the message and, of parts and calls, the element in it; the tool
	v           jsondoc.Value
}

type originKind uint8

const (
	originMessage originKind = iota
	originPart
	originCall
	originTool
)

// originOf is the path in the client's request of what stands at a path of the request with the items that it refers to, before
// of which come from the previous response.
func (r *Request) originOf(before int, path string) string {
	index, rest, ok := cutIndex(path, "input")
	switch {
	case !ok:
		return path
	case index < before:
		return "previous_response_id"
	case r.m.input.Kind() == jsondoc.String:
		return "input"
	}
	return "input[" + strconv.Itoa(index-before) + "]" + rest
}

// cutIndex splits list[3].rest into the index and .rest.
func cutIndex(path, list string) (index int, rest string, ok bool) {
	path, ok = strings.CutPrefix(path, list+"[")
	if !ok {
		return 0, "", false
	}
	digits, rest, ok := strings.Cut(path, "]")
	index, err := strconv.Atoi(digits)
	return index, rest, ok && err == nil && index >= 0
}
