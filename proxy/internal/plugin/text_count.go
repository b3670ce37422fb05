package plugin

import (
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// textCount counts the code points of the texts in a batch for each choice, for text_length. It resumes where it
// stopped, so that asking after every piece costs no more than asking once.
//
// A character that is split between two pieces is counted here where it begins, and by the writer where it ends.
// Between the two halves the sum of both may be one too small, but no index can point there.
type textCount struct {
	seen   int     // events counted so far
	points []int64 // code points, by choice
	text   []byte  // scratch: decoded JSON
}

func (t *textCount) reset() { t.seen, t.points = 0, t.points[:0] }

// pending returns how many code points of a choice's content are in the batch.
func (t *textCount) pending(b *response.Batch, choice int32) int64 {
	for ; t.seen < len(b.Events); t.seen++ {
		ev := &b.Events[t.seen]
		if ev.Kind != response.EventText || ev.Encoding&abi.EncodingDefault != 0 {
			continue
		}
		for int(ev.Choice) >= len(t.points) {
			t.points = append(t.points, 0)
		}
		t.points[ev.Choice] += t.count(ev.Encoding, b.Bytes(ev.A))
	}
	if int(choice) >= len(t.points) {
		return 0
	}
	return t.points[choice]
}

func (t *textCount) count(e abi.Encoding, s []byte) int64 {
	switch e {
	case abi.EncodingEscaped:
		n := response.CountEscapedPoints(s)
		if secondHalf(s) {
			n--
		}
		return int64(n)
	case abi.EncodingJSON:
		// Invalid JSON counts as empty here. The writer rejects it when the call is committed.
		t.text, _ = jsondoc.AppendCompact(t.text[:0], s)
		s = t.text
	}
	return int64(response.CountPoints(s))
}

// secondHalf reports whether the content of a JSON string begins with the escape of a low surrogate.
func secondHalf(s []byte) bool {
	return len(s) >= 4 && s[0] == '\\' && s[1] == 'u' && s[2]|0x20 == 'd' && s[3]|0x20 >= 'c'
}
