package cohere

import (
	"bytes"
	"encoding/binary"

	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// The API's citation offsets are relative to their block, the OpenAI API's to the complete text. In a stream, the
// length of the text before the block is kept in the state unless it is zero.

// saveTextOffset records the length of the text before a text block, at the start of the block.
func saveTextOffset(a *provider.Answer) {
	if n := a.TextLength(0); n > 0 {
		var state [8]byte
		binary.LittleEndian.PutUint64(state[:], uint64(n))
		a.SetState(state[:])
	}
}

// textOffset returns the length of the text before the current text block, in code points.
func textOffset(a *provider.Answer) int64 {
	if p := a.State(); len(p) == 8 {
		return int64(binary.LittleEndian.Uint64(p))
	}
	return 0
}

// emitAnnotations converts a citation to annotations, one for each source with a URL. Other sources are documents and
// tool results of the client, which have no equivalent in the OpenAI API. offset is the length of the text before the
// citation's block, in code points.
func emitAnnotations(a *provider.Answer, citation json.Value, offset int64) {
	kind := citation.Get("type")
	start, ok := citation.Get("start").Int()
	end, ok2 := citation.Get("end").Int()
	if !ok || !ok2 || start < 0 || end < start || end > maxCount || kind.Is("THINKING_CONTENT") {
		a.Unknown([]byte("citation"))
		return
	}
	var (
		r json.Reader
		w json.Writer
	)
	w.Array()
	found := false
	r.Reset(citation.Get("sources"))
	for list := r.Array(); list.Next(); {
		url, title := readSource(&r)
		if url == nil {
			continue
		}
		found = true
		w.Object()
		w.Name("type")
		w.String("url_citation")
		w.Name("url_citation")
		w.Object()
		w.Name("url")
		w.Inside(url)
		if title != nil {
			w.Name("title")
			w.Inside(title)
		}
		w.Name("start_index")
		w.Int(offset + start)
		w.Name("end_index")
		w.Int(offset + end)
		w.EndObject()
		w.EndObject()
	}
	w.EndArray()
	if !found || !a.Extra(abi.ScopeMessage, 0, 0, "annotations", w.Buf) {
		a.Unknown([]byte("citation"))
	}
}

// readSource reads the URL and title of a source, as escaped string contents. They are members of a document or tool
// result of the client. url is nil if there is none.
func readSource(r *json.Reader) (url, title []byte) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "document", "tool_output":
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "url":
					url = r.Inside()
				case "title":
					title = r.Inside()
				}
			}
		}
	}
	if !bytes.HasPrefix(url, []byte("https://")) && !bytes.HasPrefix(url, []byte("http://")) {
		return nil, nil
	}
	return url, title
}
