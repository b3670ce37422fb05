package native

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"fmt"
	"reflect"
	"testing"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// TestImportsReachTheParent calls each import, with arguments that differ, and reads what the parent receives.
func TestImportsReachTheParent(t *testing.T) {
	for m := range reflect.TypeFor[abi.Host]().Methods() {
		var calls, results bytes.Buffer
		if err := gob.NewEncoder(&results).Encode(message{Result: 3, Bytes: [][]byte{[]byte("abc")}}); err != nil {
			t.Fatal(err)
		}
		buffered := bufio.NewWriter(&calls)
		s := &server{in: gob.NewDecoder(&results), out: gob.NewEncoder(buffered), buffered: buffered}
		want := message{Name: m.Name, Returns: m.Type.NumOut() > 0}
		var in []reflect.Value
		for i := range m.Type.NumIn() {
			v := reflect.New(m.Type.In(i)).Elem()
			if v.Kind() == reflect.Slice {
				v.SetBytes(fmt.Appendf(nil, "argument %d", i))
				want.Bytes = append(want.Bytes, v.Bytes())
			} else {
				v.SetInt(int64(i + 1))
				want.Ints = append(want.Ints, v.Int())
			}
			in = append(in, v)
		}
		out := reflect.ValueOf(remote{s}).MethodByName(m.Name).Call(in)
		buffered.Flush()
		var got message
		if err := gob.NewDecoder(&calls).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if got.Room > 0 { // the last slice is what the host writes to
			last := in[len(in)-1].Bytes()
			if want.Bytes, want.Room = want.Bytes[:len(want.Bytes)-1], len(last); len(want.Bytes) == 0 {
				want.Bytes = nil
			}
			if !bytes.HasPrefix(last, []byte("abcument")) {
				t.Errorf("%s wrote %q", m.Name, last)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the parent receives %+v, want %+v", m.Name, got, want)
		}
		if len(out) == 1 && out[0].Int() != 3 {
			t.Errorf("%s returned %d", m.Name, out[0].Int())
		}
	}
}
