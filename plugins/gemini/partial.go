package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// step is a step of a path into arguments: the name of a member or the index of an element. The path of the latest
// value consists of the open containers, outermost first, and the value itself.
type step struct {
	index int64  // -1 for a name
	name  []byte // unescaped
	used  []byte // hashes of the names that the object already has, eight bytes each
}

// maxUsed is the maximum number of names that are remembered for one call.
const maxUsed = 256

// maxGap is the maximum number of array elements that may be omitted before an element.
const maxGap = 1024

// badPieces returns the failure of streamed arguments that do not form valid JSON.
func badPieces() error {
	return badResponse("The provider's response contains pieces of tool arguments that do not form valid JSON.")
}

// emitArguments emits more of the arguments of the current call.
func (p *progress) emitArguments(a *provider.Answer, s *candidateState, partial json.Value) error {
	if partial == nil {
		return nil
	}
	p.text = p.text[:0]
	p.steps = unpackSteps(p.steps[:0], s.path)
	var r json.Reader
	r.Reset(partial)
	for l := r.Array(); l.Next(); {
		var v value
		v.read(&r)
		if !p.appendValue(s, &v) {
			return badPieces()
		}
	}
	from := len(p.paths)
	p.paths = packSteps(p.paths, p.steps)
	s.path = p.paths[from:len(p.paths):len(p.paths)]
	if len(p.text) > 0 {
		a.ToolArguments(s.choice, s.key, abi.EncodingUTF8, p.text)
	}
	return nil
}

// endCall completes the call that is being streamed, if any.
func (p *progress) endCall(a *provider.Answer, choice int32) {
	s := p.lookup(choice)
	if s == nil || !s.has(calling) {
		return
	}
	p.text = p.text[:0]
	if s.has(quoted) {
		p.text = append(p.text, '"')
	}
	p.steps = unpackSteps(p.steps[:0], s.path)
	p.closeTo(0)
	if s.has(written) {
		p.text = append(p.text, '}')
		a.ToolArguments(choice, s.key, abi.EncodingUTF8, p.text)
	}
	a.ToolEnd(choice, s.key)
	s.flags &^= calling | written | quoted | signed
	s.path = nil
	p.dirty = true
}

// value is a piece of arguments. path is unescaped; text is escaped string content, or JSON.
type value struct {
	path     []byte
	text     []byte
	isString bool
	more     bool // more pieces of the string follow
}

func (v *value) read(r *json.Reader) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "jsonPath":
			v.path = r.Text()
		case "stringValue":
			if r.Kind() == json.String {
				v.text, v.isString = r.Inside(), true
			}
		case "numberValue":
			if r.Kind() == json.Number {
				v.text = r.Raw()
			}
		case "boolValue":
			if r.Kind() == json.Bool {
				v.text = r.Raw()
			}
		case "nullValue":
			v.text = []byte("null")
		case "willContinue":
			v.more, _ = r.Bool()
		}
	}
}

// appendValue appends a value to the text of the arguments. It returns false if the value does not fit there.
func (p *progress) appendValue(s *candidateState, v *value) bool {
	var ok bool
	if p.target, ok = parsePath(p.target[:0], v.path); !ok {
		return false
	}
	again := s.has(written) && samePath(p.steps, p.target)
	if s.has(quoted) && (!again || !v.more) {
		// A value with another path ends the string implicitly.
		if again {
			p.text = append(p.text, v.text...)
		}
		p.text = append(p.text, '"')
		s.flags &^= quoted
		if again {
			return v.isString || v.text == nil
		}
	}
	switch {
	case again && s.has(quoted):
		p.text = append(p.text, v.text...)
		return v.isString || v.text == nil
	case again:
		return len(v.text) == 0 // an empty piece after the end
	case v.text == nil:
		return true // the value has not started yet
	case !p.advance(s):
		return false
	case !v.isString:
		p.text = append(p.text, v.text...)
		return true
	}
	p.text = append(append(p.text, '"'), v.text...)
	if v.more {
		s.flags |= quoted
	} else {
		p.text = append(p.text, '"')
	}
	return true
}

// advance appends the text between the latest value and the value at target: it closes the containers that target is
// not in, and opens those that it is in. It returns false if the arguments would not be valid JSON, or
// would omit too many elements of an array.
func (p *progress) advance(s *candidateState) bool {
	same := 0
	if !s.has(written) {
		s.flags |= written
		p.text = append(p.text, '{')
		if p.target[0].index >= 0 {
			return false // arguments must be an object
		}
	} else {
		for same < len(p.steps) && same < len(p.target) && p.steps[same].equal(&p.target[same]) {
			same++
		}
		if same == len(p.steps) || same == len(p.target) {
			return false // one path is a prefix of the other
		}
		p.closeTo(same)
		last, next := &p.steps[same], &p.target[same]
		p.text = append(p.text, ',')
		if (last.index < 0) != (next.index < 0) || last.index >= 0 && !p.fill(last.index+1, next.index) {
			return false
		}
		next.used = last.used
		p.steps = p.steps[:same]
	}
	names := 0
	for i := range p.steps {
		names += len(p.steps[i].used) / 8
	}
	for i := same; i < len(p.target); i++ {
		next := &p.target[i]
		if i > same {
			if next.index < 0 {
				p.text = append(p.text, '{')
			} else if p.text = append(p.text, '['); !p.fill(0, next.index) {
				return false
			}
		}
		if next.index < 0 {
			if !next.claimName(names) {
				return false // the object already has this name
			}
			p.text = append(json.AppendString(p.text, next.name), ':')
		}
		p.steps = append(p.steps, *next)
	}
	return true
}

// closeTo closes the open containers that are deeper than the given depth.
func (p *progress) closeTo(depth int) {
	for i := len(p.steps) - 1; i > depth; i-- {
		if p.steps[i].index < 0 {
			p.text = append(p.text, '}')
		} else {
			p.text = append(p.text, ']')
		}
	}
}

// fill appends nulls for the omitted elements of an array, those with the indexes from to to-1. It returns false if
// there are too many.
func (p *progress) fill(from, to int64) bool {
	if to < from || to-from > maxGap {
		return false
	}
	for ; from < to; from++ {
		p.text = append(p.text, "null,"...)
	}
	return true
}

// equal reports whether two steps are the same.
func (s *step) equal(other *step) bool {
	return s.index == other.index && bytes.Equal(s.name, other.name)
}

func samePath(a, b []step) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].equal(&b[i]) {
			return false
		}
	}
	return true
}

// claimName records the step's name in its object. It returns false if the object already has it. names is the number
// of names recorded for other steps.
func (s *step) claimName(names int) bool {
	// FNV-1a.
	h := uint64(14695981039346656037)
	for _, c := range s.name {
		h = (h ^ uint64(c)) * 1099511628211
	}
	var sum [8]byte
	for i := range sum {
		sum[i] = byte(h >> (8 * i))
	}
	for at := 0; at < len(s.used); at += len(sum) {
		if bytes.Equal(s.used[at:at+len(sum)], sum[:]) {
			return false
		}
	}
	if names+len(s.used)/len(sum) < maxUsed {
		s.used = append(s.used[:len(s.used):len(s.used)], sum[:]...)
	}
	return true
}

// parsePath reads a JSON path (RFC 9535) that names one value: $.name[0]['other name'].
func parsePath(dst []step, path []byte) (_ []step, ok bool) {
	path, ok = bytes.CutPrefix(path, []byte{'$'})
	if !ok {
		return dst, false
	}
	for len(path) > 0 {
		switch {
		case path[0] == '.':
			path = path[1:]
			end := bytes.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			if end == 0 {
				return dst, false
			}
			dst = append(dst, step{index: -1, name: path[:end]})
			path = path[end:]
		case path[0] == '[' && len(path) > 1 && (path[1] == '\'' || path[1] == '"'):
			name, rest, ok := cutQuoted(path[1:])
			if !ok || len(rest) == 0 || rest[0] != ']' {
				return dst, false
			}
			dst = append(dst, step{index: -1, name: name})
			path = rest[1:]
		case path[0] == '[':
			digits, rest, ok := bytes.Cut(path[1:], []byte{']'})
			n, isInt := json.Value(digits).Int()
			if !ok || !isInt || n < 0 {
				return dst, false
			}
			dst = append(dst, step{index: n})
			path = rest
		default:
			return dst, false
		}
	}
	return dst, len(dst) > 0
}

// cutQuoted reads a name in single or double quotes. It may contain JSON escapes and \'.
func cutQuoted(p []byte) (name, rest []byte, ok bool) {
	for i := 1; i < len(p); i++ {
		switch p[i] {
		case p[0]:
			name = p[1:i]
			if bytes.IndexByte(name, '\\') >= 0 {
				name = json.AppendText(nil, bytes.ReplaceAll(name, []byte(`\'`), []byte(`'`)))
			}
			return name, p[i+1:], true
		case '\\':
			i++
		}
	}
	return nil, nil, false
}

// packSteps appends the encoding of steps that is stored between two calls.
func packSteps(dst []byte, steps []step) []byte {
	for i := range steps {
		s := &steps[i]
		if s.index >= 0 {
			dst = appendCount(dst, s.index<<1|1)
			continue
		}
		dst = appendCount(dst, int64(len(s.name))<<1)
		dst = append(dst, s.name...)
		dst = appendCount(dst, len(s.used))
		dst = append(dst, s.used...)
	}
	return dst
}

// unpackSteps decodes the output of packSteps; the steps share its memory.
func unpackSteps(dst []step, b []byte) []step {
	for len(b) > 0 {
		var n int64
		n, b = cutCount(b)
		if n&1 != 0 {
			dst = append(dst, step{index: n >> 1})
			continue
		}
		s := step{index: -1}
		n >>= 1
		s.name, b = b[:n:n], b[n:]
		n, b = cutCount(b)
		s.used, b = b[:n:n], b[n:]
		dst = append(dst, s)
	}
	return dst
}
