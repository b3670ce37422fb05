package json_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// boundsOf returns the bounds of the values of a valid document that have at least size bytes, as the gateway does.
func boundsOf(document []byte, size int) (list []byte) {
	var r json.Reader
	r.Reset(document)
	var walk func()
	walk = func() {
		at, kind := r.Offset(), r.Kind()
		entry := len(list)
		list = append(list, make([]byte, 8)...)
		var end uint32
		switch kind {
		case json.Object:
			for o := r.Object(); o.Next(); {
				walk()
			}
		case json.Array:
			for a := r.Array(); a.Next(); {
				walk()
			}
		default:
			raw := r.Raw()
			end = uint32(at + len(raw))
			if kind == json.String && strings.Contains(string(raw), `\`) {
				end |= 1 << 31
			}
		}
		if end == 0 { // a container: read it once more as a whole
			var whole json.Reader
			whole.Reset(document[at:])
			end = uint32(at + len(whole.Raw()))
		}
		if int(end&^(1<<31))-at < size {
			list = append(list[:entry], list[entry+8:]...)
			return
		}
		binary.LittleEndian.PutUint32(list[entry:], uint32(at))
		binary.LittleEndian.PutUint32(list[entry+4:], end)
	}
	walk()
	return list
}

var boundsShape = json.NewShape("a", "content", "role", "inner.a", "inner.text", "messages")

// describe reads a document in every way, and returns what it has read. choices decides how values are read.
func describe(r *json.Reader, choices uint64) string {
	var b strings.Builder
	var m, inner json.Members
	var other json.Reader
	var read func(depth int)
	read = func(depth int) {
		choices = choices*6364136223846793005 + 1442695040888963407
		fmt.Fprintf(&b, "%d@%d ", r.Kind(), r.Offset())
		switch choices >> 60 % 7 {
		case 0:
			r.Skip()
		case 1:
			fmt.Fprintf(&b, "raw %s ", r.Raw())
		case 2:
			fmt.Fprintf(&b, "inside %s ", r.Inside())
		case 3:
			fmt.Fprintf(&b, "text %s ", r.Text())
		case 4:
			if r.Kind() != json.Object || depth > 8 {
				r.Skip()
				return
			}
			r.Members(&m, boundsShape)
			for k := range 6 {
				fmt.Fprintf(&b, "%d:%d %s %s ", k, m.Kind(k), m.Raw(k), m.Text(k))
			}
			m.Read(5, &other)
			for a := other.Array(); a.Next(); {
				other.Members(&inner, boundsShape)
				fmt.Fprintf(&b, "%s %s ", inner.Raw(1), inner.Text(4))
			}
		case 5:
			for o := r.Object(); o.Next(); {
				fmt.Fprintf(&b, "%s: ", r.Name())
				read(depth + 1)
			}
		case 6:
			for a := r.Array(); a.Next(); {
				read(depth + 1)
			}
		}
	}
	read(0)
	fmt.Fprint(&b, r.End())
	return b.String()
}

// FuzzBounds compares readers with and without bounds, and reads with bounds that are not those of the document.
func FuzzBounds(f *testing.F) {
	long := strings.Repeat("words of a long text ", 20)
	f.Add([]byte(`{"a":"`+long+`","messages":[{"role":"user","content":"`+long+`\n\"`+long+`"},{"content":[{"text":"`+long+`"},1,null]}],"inner":{"a":1,"text":"`+long+`\\"}}`), uint64(1), 3, []byte("12345678"))
	f.Add([]byte(`[ "`+long+`" , ["x"], {} , [], "", {"a" : [[[["`+long+`"]]]]} ]`), uint64(2), 100, []byte{})
	f.Add([]byte(`"`+long+`\u00e4"`), uint64(3), 2, []byte("\x00\x00\x00\x00\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, document []byte, choices uint64, size int, foreign []byte) {
		var r json.Reader
		r.Reset(document)
		if r.End() != nil {
			return
		}
		var b json.Bounds
		// Each document is read in several ways.
		for range 16 {
			choices = choices*2862933555777941757 + 3037000493
			r.ResetChecked(document)
			want := describe(&r, choices)
			b.Reset(boundsOf(document, size))
			r.ResetBounds(document, &b)
			if got := describe(&r, choices); got != want {
				t.Errorf("with bounds\n%s\nwant\n%s", got, want)
			}
			b.Reset(foreign)
			r.ResetBounds(document, &b)
			describe(&r, choices) // must not read beyond the document
		}
	})
}
