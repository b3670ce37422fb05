package glob_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/glob"
)

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, text   string
		empty, nonEmpty bool // want with minStar 0 and 1
	}{
		{"", "", true, true},
		{"a", "a", true, true},
		{"a", "ab", false, false},
		{"*", "", true, false},
		{"*", "a/b", true, true},
		{"gpt-*", "gpt-", true, false},
		{"gpt-*", "gpt-5", true, true},
		{"*:generate", "m:generate", true, true},
		{"*:generate", ":generate", true, false},
		{"a*b*c", "abc", true, false},
		{"a*b*c", "axbyc", true, true},
		{"a*b*c", "axbycz", false, false},
		{"*ab", "aab", true, true},
		{"*a*b", "aab", true, false},
	} {
		if got := glob.Match(tt.pattern, tt.text, 0); got != tt.empty {
			t.Errorf("Match(%q, %q, 0) = %t", tt.pattern, tt.text, got)
		}
		if got := glob.Match(tt.pattern, []byte(tt.text), 1); got != tt.nonEmpty {
			t.Errorf("Match(%q, %q, 1) = %t", tt.pattern, tt.text, got)
		}
	}
}

// TestMatchAgreesWithRegexp compares Match with the equivalent regular expression.
func TestMatchAgreesWithRegexp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.SampledFrom([]rune("ab*")), 0, 10, -1).Draw(t, "pattern")
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab")), 0, 14, -1).Draw(t, "text")
		for minStar, star := range []string{".*", ".+"} {
			want := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, star) + "$").MatchString(text)
			if got := glob.Match(pattern, text, minStar); got != want {
				t.Fatalf("Match(%q, %q, %d) = %t, want %t", pattern, text, minStar, got, want)
			}
		}
	})
}

func TestMatchDoesNotAllocate(t *testing.T) {
	text := []byte("/v1beta/models/gemini-2.5-pro:generateContent")
	if n := testing.AllocsPerRun(100, func() { glob.Match("/v1beta/models/*:generateContent", text, 1) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
