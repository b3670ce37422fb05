package credential_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// TestRedactsManySecrets compares a Redactor for a thousand secrets with replacing them one by one, longest first.
func TestRedactsManySecrets(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	word := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "abc"[r.IntN(3)]
		}
		return string(b)
	}
	var secrets []string
	for range 1000 {
		secrets = append(secrets, word(8+r.IntN(3)))
	}
	many := credential.NewRedactor(secrets...)
	inOrder := slices.Clone(secrets)
	slices.SortStableFunc(inOrder, func(a, b string) int { return len(b) - len(a) })
	found := 0
	for range 2000 {
		text := word(r.IntN(40))
		if r.IntN(4) == 0 {
			text += secrets[r.IntN(len(secrets))]
		}
		if r.IntN(4) == 0 {
			text += "é " + word(10)
		}
		want := text
		for i := 0; i < len(inOrder); {
			// Of secrets with the same length, replace the first one in the text.
			n := len(inOrder[i])
			var b strings.Builder
			rest := want
			for len(rest) >= n {
				if slices.Contains(inOrder[i:], rest[:n]) {
					b.WriteString("[redacted]")
					rest = rest[n:]
					continue
				}
				b.WriteByte(rest[0])
				rest = rest[1:]
			}
			want = b.String() + rest
			for i < len(inOrder) && len(inOrder[i]) == n {
				i++
			}
		}
		if got := string(many.Redact([]byte(text))); got != want {
			t.Fatalf("Redact(%q) = %q, want %q", text, got, want)
		}
		if want != text {
			found++
		}
	}
	if found < 200 {
		t.Errorf("only %d texts contained a secret", found)
	}
}

// BenchmarkRedactManyKeys measures redaction of a provider's text with one client key and with 100,000.
func BenchmarkRedactManyKeys(b *testing.B) {
	for _, keys := range []int{1, 100_000} {
		var secrets []string
		for i := range keys {
			secrets = append(secrets, fmt.Sprintf("sk-one-of-many-%08d", i))
		}
		r := credential.NewRedactor(secrets...)
		for _, size := range []int{36, 64 << 10} {
			text := []byte(strings.Repeat("req_0123456789abcdef-0123456789abcdef", size/36+1)[:size])
			b.Run(fmt.Sprintf("keys=%d/bytes=%d", keys, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r.Redact(text)
				}
			})
		}
	}
}
