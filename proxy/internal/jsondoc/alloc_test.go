//go:build !race

package jsondoc_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// wantNoAllocs fails the test if do allocates after its first call.
func wantNoAllocs(t *testing.T, name string, do func()) {
	t.Helper()
	do()
	if n := testing.AllocsPerRun(100, do); n != 0 {
		t.Errorf("%s allocates %v times", name, n)
	}
}

func TestDoesNotAllocate(t *testing.T) {
	var d jsondoc.Doc
	for _, body := range [][]byte{
		conversation(1<<10, english), conversation(100<<10, english), conversation(100<<10, chinese), []byte(manyMembers(500, "last")), []byte(sample),
		[]byte("  1.7976931348623157e308 "),
	} {
		wantNoAllocs(t, "Parse", func() {
			if err := d.Parse(body, jsondoc.Limits{}); err != nil {
				t.Fatal(err)
			}
			d.Reset()
		})
	}

	if err := d.Parse([]byte(sample), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	var out []byte
	path, number := []byte("/deep/er/est/1/1/0"), []byte("/n")
	wantNoAllocs(t, "reading values", func() {
		v := d.Pointer(path)
		f, _ := d.Pointer(number).Float()
		if n, _ := v.Int(); n != 3 || f != 3 || !d.Root().Get("model").Is("gpt-4o") {
			t.Fatal("wrong value")
		}
		out = d.Root().Get("model").AppendText(out[:0])
		out = d.AppendCompact(out[:0])
	})

	var e jsondoc.Edits
	model, every, old, name, value := []byte("/model"), []byte("/messages/*/role"), []byte(`"user"`), []byte("num"), []byte(`"developer"`)
	wantNoAllocs(t, "edits", func() {
		e.Reset(&d)
		if e.Set(model, value)|e.Replace(every, old, value)|e.Rename(number, name)|e.Delete(path) != abi.StatusOK {
			t.Fatal("wrong status")
		}
		var err error
		if out, err = e.Apply(out[:0]); err != nil {
			t.Fatal(err)
		}
	})

	text := []byte("a line of text, \"quoted\", \xff and é\n")
	wantNoAllocs(t, "escaping", func() {
		out = jsondoc.AppendEscaped(out[:0], text)
		if !jsondoc.CheckEscaped(out) {
			t.Fatal("the escaped text is rejected")
		}
	})
	loose := []byte(sample)
	wantNoAllocs(t, "compacting", func() {
		var err error
		if out, err = jsondoc.AppendCompact(out[:0], loose); err != nil {
			t.Fatal(err)
		}
	})
}
