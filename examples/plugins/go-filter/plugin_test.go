package main

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{Package: "."}

// TestTexts splits each text at every position. The vectors are shared by the filters in all languages.
func TestTexts(t *testing.T) {
	suite.TestFilter(t, `{"words":["secret","secretive","größe"]}`, map[string]string{
		"A secret, a secretive secretiv, die größe größ, secret": "A ***, a *** ***iv, die *** größ, ***",
		"Nothing to see: ä, 🙂, secre":                            "Nothing to see: ä, 🙂, secre",
		"":                                                       "",
	})
}

func TestOptions(t *testing.T) {
	const missing, length = "words is missing", "want words of 1 to 256 bytes"
	suite.TestSettings(t, map[string]string{
		`{"words":["a"]}`: "", `{}`: missing, `{"words":[]}`: missing, `{"words":"a"}`: missing,
		`{"words":[""]}`: length, `{"words":["` + strings.Repeat("a", 257) + `"]}`: length,
	})
}
