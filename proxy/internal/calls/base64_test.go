package calls

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// decode decodes a vector in base64 as the SDKs do.
func decode(t testing.TB, s []byte) []float32 {
	t.Helper()
	p, err := base64.StdEncoding.DecodeString(string(s))
	if err != nil || len(p)%4 != 0 {
		t.Fatalf("got %d bytes, error %v, want a multiple of 4", len(p), err)
	}
	out := make([]float32, 0, len(p)/4)
	for ; len(p) > 0; p = p[4:] {
		out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(p)))
	}
	return out
}

func TestBase64RoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.SliceOfN(rapid.Float32(), 0, 400).Draw(rt, "vector")
		text, err := json.Marshal(want)
		if err != nil {
			rt.Skip("JSON has no NaN and no infinity")
		}
		if rapid.Bool().Draw(rt, "spaces") {
			text = []byte(strings.ReplaceAll(string(text), ",", " ,\n\t"))
		}
		out, ok := appendBase64([]byte("x"), text)
		got := decode(t, out[1:])
		if !ok || len(got) != len(want) {
			rt.Fatalf("got %d numbers, want %d (ok %t)", len(got), len(want), ok)
		}
		for i := range want {
			if got[i] != want[i] {
				rt.Fatalf("number %d: got %v, want %v", i, got[i], want[i])
			}
		}
	})
}

func FuzzBase64(f *testing.F) {
	for _, s := range []string{"[1]", "[ 1e-3 , -0 ]", "[]", "[1e39]", "[0.10000000000000000001]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var numbers []json.Number
		if json.Unmarshal(p, &numbers) != nil || len(p) == 0 || p[0] != '[' {
			return
		}
		var want []float32
		if err := json.Unmarshal(p, &want); err != nil {
			if _, ok := appendBase64(nil, p); ok && !strings.Contains(string(p), "null") {
				t.Fatalf("%s is accepted, but encoding/json rejects it: %v", p, err)
			}
			return
		}
		if strings.Contains(string(p), "null") || strings.Contains(string(p), `"`) {
			return
		}
		out, ok := appendBase64(nil, p)
		got := decode(t, out)
		if !ok || len(got) != len(want) {
			t.Fatalf("%s: got %v, want %v", p, got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%s: got %v, want %v", p, got, want)
			}
		}
	})
}

func BenchmarkBase64(b *testing.B) {
	vector := []byte("[" + strings.Repeat("-0.0123456789,", 1535) + "0.1]")
	var dst []byte
	b.SetBytes(int64(len(vector)))
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = appendBase64(dst[:0], vector)
	}
}
