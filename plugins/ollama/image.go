package ollama

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// maxHead is the maximum length of a data URL before its data.
const maxHead = 256

// image is an image of a message.
type image struct {
	url  []byte // escaped string content
	part int    // index of the part
}

// writeImage writes an image, which the API expects as plain base64. The data may be most of the request, so its
// validation is left to the server.
func (t *translation) writeImage(url []byte, param string) error {
	head, data, ok := cutHead(url)
	if ok && bytes.IndexByte(head, '\\') >= 0 {
		// Some clients escape the slash of the media type.
		head = json.AppendText(nil, head)
	}
	switch {
	case !ok || !bytes.HasPrefix(head, []byte("data:")):
		if bytes.HasPrefix(url, []byte("http")) {
			return translate.Unsupported(param, "This provider accepts images only as data URLs.")
		}
		return translate.Invalid("invalid_value", param, "Expected a data URL with base64 data.")
	case !bytes.HasSuffix(head, []byte(";base64")) || len(data) == 0:
		return translate.Invalid("invalid_value", param, "Expected a data URL with base64 data.")
	case !bytes.HasPrefix(head, []byte("data:image/")):
		return translate.Unsupported(param, "This provider supports only images.")
	}
	t.w.Inside(data)
	return nil
}

// cutHead splits a URL at its first comma. ok is false if there is none in the first maxHead bytes.
func cutHead(url []byte) (head, data []byte, ok bool) {
	i := bytes.IndexByte(url[:min(len(url), maxHead)], ',')
	if i < 0 {
		return nil, nil, false
	}
	return url[:i], url[i+1:], true
}
