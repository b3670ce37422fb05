package ollama

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// maxHead is the most that stands before the data of a data URL.
const maxHead = 256

// image is an image of a message: its URL, as escaped string content, and which part it is.
type image struct {
	url  []byte
	part int
}

// writeImage writes an image, which the API takes as its base64 alone. The data is not validated: it is most of the
// request, and the server checks it.
func (t *translation) writeImage(url []byte, param string) error {
	head, data, ok := cutHead(url)
	if ok && bytes.IndexByte(head, '\\') >= 0 {
		// Some clients write the slash of the type as an escape.
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

// cutHead cuts a URL at its first comma, near its beginning.
func cutHead(url []byte) (head, data []byte, ok bool) {
	i := bytes.IndexByte(url[:min(len(url), maxHead)], ',')
	if i < 0 {
		return nil, nil, false
	}
	return url[:i], url[i+1:], true
}
