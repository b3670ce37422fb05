package thinking_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

var sealKey = []byte("0123456789abcdef0123456789abcdef")

// seals returns examples of all kinds of sealed reasoning.
func seals() map[string]thinking.Sealed {
	return map[string]thinking.Sealed{
		"signature":   {Format: "google-gemini-v1", Part: abi.ReasoningSignature, Data: []byte("EuYFCuMFAXLI2nwO+/=")},
		"encrypted":   {Format: "openai-responses-v1", Part: abi.ReasoningEncrypted, Data: []byte(strings.Repeat("gAAAAB", 4000))},
		"escaped":     {Format: "xai-responses-v1", Part: abi.ReasoningEncrypted, Data: []byte(`a\/b\u003d\n"`)},
		"of a call":   {Format: "google-gemini-v1", Part: abi.ReasoningToolEncrypted, CallID: "call_0Zü", Data: []byte("CiQB")},
		"origin only": {Format: "deepseek", Part: abi.ReasoningText},
		"nothing":     {},
		"long names":  {Format: strings.Repeat("f", 300), CallID: strings.Repeat("i", 70_000)},
	}
}

func equalSeals(a, b thinking.Sealed) bool {
	return a.Format == b.Format && a.Part == b.Part && a.CallID == b.CallID && bytes.Equal(a.Data, b.Data)
}

// covers: M3.14
func TestSealReturnsWhatWasSealed(t *testing.T) {
	s := thinking.NewSealer(sealKey)
	for name, want := range seals() {
		token := s.Append([]byte("before "), want)[len("before "):]
		if !thinking.IsSealed(token) {
			t.Errorf("%s: not a token: %q", name, token)
		}
		got, ok := s.Open(token)
		if !ok || !equalSeals(got, want) {
			t.Errorf("%s: got %+v, %t", name, got, ok)
		}
		if quoted, _ := json.Marshal(string(token)); string(quoted) != `"`+string(token)+`"` {
			t.Errorf("%s: JSON escapes %q", name, token)
		}
		other, ok := thinking.NewSealer(bytes.Clone(sealKey)).Open(token)
		if !ok || !equalSeals(other, want) {
			t.Errorf("%s: another gateway with the key read %+v, %t", name, other, ok)
		}
	}
}

// covers: M3.15
func TestDamagedSealIsRejected(t *testing.T) {
	s := thinking.NewSealer(sealKey)
	for name, sealed := range seals() {
		token := s.Append(nil, sealed)
		positions := rand.Perm(len(token))
		if testing.Short() {
			positions = positions[:min(len(token), 50)]
		} else if len(token) >= 3000 {
			positions = positions[:200]
		}
		for _, i := range positions {
			for _, b := range []byte{token[i] + 1, token[i] ^ 1, 'A', '_', '=', '\n', ' ', 0, 0xff} {
				if b == token[i] {
					continue
				}
				damaged := bytes.Clone(token)
				damaged[i] = b
				if v, ok := s.Open(damaged); ok {
					t.Fatalf("%s: byte %d as %q: read %+v", name, i, b, v)
				}
			}
			if _, ok := s.Open(token[:i]); ok {
				t.Fatalf("%s: cut at %d: read", name, i)
			}
			for _, more := range []string{"A", "\n"} {
				if _, ok := s.Open([]byte(string(token[:i]) + more + string(token[i:]))); ok {
					t.Fatalf("%s: %q inserted at %d: read", name, more, i)
				}
			}
		}
		if _, ok := s.Open(append(bytes.Clone(token), '\n')); ok {
			t.Errorf("%s: read with a line feed at the end", name)
		}
	}
}

// covers: M3.15
func TestSealOfAnotherKeyIsRejected(t *testing.T) {
	token := thinking.NewSealer(sealKey).Append(nil, seals()["signature"])
	for name, s := range map[string]*thinking.Sealer{
		"another key": thinking.NewSealer([]byte("another key of thirty-two bytes.")),
		"random keys": thinking.NewSealer(nil),
	} {
		if v, ok := s.Open(token); ok {
			t.Errorf("%s: read %+v", name, v)
		}
	}
	random := thinking.NewSealer(nil)
	if _, ok := random.Open(random.Append(nil, seals()["signature"])); !ok {
		t.Error("a sealer with a random key cannot open its own tokens")
	}
}

func TestProviderSignatureIsNotSealed(t *testing.T) {
	for _, s := range []string{"", "EuYFCuMFAXLI2nwO", "sluice", "sluice.thinking.1.W10", "c2x1aWNlLnNlYWwuMS4"} {
		if thinking.IsSealed([]byte(s)) {
			t.Errorf("%q is taken for a token", s)
		}
		if _, ok := thinking.NewSealer(nil).Open([]byte(s)); ok {
			t.Errorf("%q opens", s)
		}
	}
}

func TestSealerCopiesItsKey(t *testing.T) {
	key := bytes.Clone(sealKey)
	s := thinking.NewSealer(key)
	clear(key)
	if _, ok := s.Open(thinking.NewSealer(sealKey).Append(nil, seals()["signature"])); !ok {
		t.Error("the sealer's key changed with the caller's slice")
	}
}

func TestSealerIsSafeForConcurrentUse(t *testing.T) {
	s := thinking.NewSealer(nil)
	var wg sync.WaitGroup
	for _, sealed := range seals() {
		wg.Go(func() {
			for range 50 {
				if got, ok := s.Open(s.Append(nil, sealed)); !ok || !equalSeals(got, sealed) {
					t.Errorf("got %+v, %t", got, ok)
				}
			}
		})
	}
	wg.Wait()
}

// FuzzSealer checks that every token that opens is one that the sealer writes, and that every sealed value can be
// opened.
func FuzzSealer(f *testing.F) {
	s := thinking.NewSealer(sealKey)
	for _, sealed := range seals() {
		if token := s.Append(nil, sealed); len(token) < 200 { // long ones are slow to minimize
			f.Add(token)
		}
	}
	f.Add([]byte("sluice.seal.1."))
	f.Fuzz(func(t *testing.T, token []byte) {
		if v, ok := s.Open(token); ok {
			if again := s.Append(nil, v); !bytes.Equal(again, token) {
				t.Fatalf("%q opens, but its content is sealed as %q", token, again)
			}
		}
		want := thinking.Sealed{Format: string(token), Part: abi.ReasoningPart(len(token) % int(abi.ReasoningParts)), Data: token}
		if got, ok := s.Open(s.Append(nil, want)); !ok || !equalSeals(got, want) {
			t.Fatalf("got %+v, %t", got, ok)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	s := thinking.NewSealer(sealKey)
	sealed := thinking.Sealed{Format: "google-gemini-v1", Part: abi.ReasoningSignature, Data: bytes.Repeat([]byte("EuYF"), 100)}
	var token []byte
	b.Run("seal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			token = s.Append(token[:0], sealed)
		}
	})
	b.Run("open", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Open(token)
		}
	})
}
