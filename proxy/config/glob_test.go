package config_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/config"
)

func TestGlobs(t *testing.T) {
	tests := []struct {
		glob, id string
		want     bool
	}{
		{"*", "", true},
		{"*", "a/b", true},
		{"gpt-4", "gpt-4", true},
		{"gpt-4", "gpt-4o", false},
		{"gpt-4", "", false},
		{"gpt-*", "gpt-", true},
		{"gpt-*", "gpt-5.4/mini", true},
		{"gpt-*", "xgpt-5", false},
		{"*mini", "gpt-mini", true},
		{"*mini", "minim", false},
		{"a/*/b", "a/x/b", true},
		{"a/*/b", "a/x/y/b", true},
		{"a/*/b", "a//b", true},
		{"a/*/b", "a/b", false},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"*ab*ab*", "xabyab", true},
		{"*ab*ab*", "xaby", false},
		{"a*b*c", "abcbc", true},
		{"a.c", "abc", false},
	}
	for _, tt := range tests {
		if got := config.Glob(tt.glob).Match(tt.id); got != tt.want {
			t.Errorf("%q matches %q: %t, want %t", tt.glob, tt.id, got, tt.want)
		}
	}
}

func TestGlobsMatchLikeRegularExpressions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		glob := rapid.StringMatching(`[ab*]{1,8}`).Draw(t, "glob")
		id := rapid.StringMatching(`[ab]{0,12}`).Draw(t, "id")
		re := regexp.MustCompile("^" + strings.ReplaceAll(glob, "*", ".*") + "$")
		if got, want := config.Glob(glob).Match(id), re.MatchString(id); got != want {
			t.Fatalf("%q matches %q: %t, want %t", glob, id, got, want)
		}
	})
}

// TestGlobsMatchInLinearTime matches a pattern for which a backtracking matcher would need exponential time.
func TestGlobsMatchInLinearTime(t *testing.T) {
	g := config.Glob(strings.Repeat("a*", 8) + "b")
	if g.Match(strings.Repeat("a", 1<<20)) {
		t.Error("the pattern matches")
	}
}
