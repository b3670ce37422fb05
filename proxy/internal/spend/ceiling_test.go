package spend_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// TestTokensPerByteHoldsPrompt checks that a prompt with the tokens per byte that were seen of it holds its tokens.
func TestTokensPerByteHoldsPrompt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := spend.Prompt{Text: rapid.Int64Range(0, 1<<40).Draw(t, "text"), Parts: rapid.Int64Range(0, 1000).Draw(t, "parts"), Tools: rapid.Bool().Draw(t, "tools")}
		strict := p.Tokens()
		tokens := rapid.Int64Range(0, strict).Draw(t, "tokens")
		seen := p.TokensPerByte(tokens)
		if seen < 0 || seen > 1 {
			t.Fatalf("%d tokens: %v tokens per byte", tokens, seen)
		}
		p.PerByte = seen
		if most := p.Tokens(); seen > 0 && (most < tokens || most > tokens+1) {
			t.Fatalf("with %v tokens per byte, %d of %d are held for %d", seen, most, strict, tokens)
		}
		p.Images = 1
		if n := p.TokensPerByte(tokens); n != 0 {
			t.Fatalf("with an image: %v tokens per byte, want unknown", n)
		}
	})
}
