package secrets

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

var suite = plugintest.Suite{Package: "plugins/all", Plugin: "secrets"}

const everything = `{"find":["card","iban","ssn","email","phone","ipv4","ipv6","api_key","jwt","private_key"]}`

func TestMasks(t *testing.T) {
	if testing.Short() {
		t.Skip("calls the module some thousands of times")
	}
	texts := map[string]string{}
	for _, e := range examples {
		texts["see "+e.text+" ok"] = masked(t, allKinds, "see "+e.text+" ok")
	}
	suite.TestFilter(t, everything, texts)
}

func TestActions(t *testing.T) {
	const text = "Jane has 4242 4242 4242 4242, jane@example.com, and 192.0.2.17."
	for settings, want := range map[string]string{
		`{}`:                                 "Jane has [card], [email], and 192.0.2.17.",
		`{"find":["ipv4"]}`:                  "Jane has 4242 4242 4242 4242, jane@example.com, and [ipv4].",
		`{"mask":"<{kind} removed>"}`:        "Jane has <card removed>, <email removed>, and 192.0.2.17.",
		`{"mask":""}`:                        "Jane has , , and 192.0.2.17.",
		`{"allow":["4242 4242 4242 4242"]}`:  "Jane has 4242 4242 4242 4242, [email], and 192.0.2.17.",
		`{"allow":["@example.com"]}`:         "Jane has [card], jane@example.com, and 192.0.2.17.",
		`{"allow":["@ample.com","e"]}`:       "Jane has [card], [email], and 192.0.2.17.",
		`{"action":"tag"}`:                   text + " #secrets",
		`{"action":"tag","tag":"pii"}`:       text + " #pii",
		`{"action":"refuse"}`:                "refused: The text contains sensitive data (card).",
		`{"action":"tag","tag":"not there"}`: "failed: " + errTagNotListed.Error(),
		`{"action":"refuse","find":["jwt"]}`: text,
	} {
		suite.EachForm(t, settings, func(t *testing.T, b *plugintest.Binding) {
			got, err := b.FilterText(plugintest.FilterText{Flags: abi.TextOfRequest | abi.TextComplete, Tags: []string{"pii", "secrets"}, Pieces: []string{text}})
			out := got.Text
			for _, tag := range got.Tags {
				out += " #" + tag
			}
			if err != nil {
				out = err.Error()
				if kind, rest, _ := strings.Cut(want, ": "); !strings.Contains(out, rest) || (kind == "refused") == strings.Contains(out, "filter_text") {
					t.Errorf("%s: got error %v, want %s", settings, err, want)
				}
			} else if out != want {
				t.Errorf("%s: got %q, want %q", settings, out, want)
			}
		})
	}
}

// TestActionTagIgnoresResponses checks that a filter that only tags requests does not delay responses.
func TestActionTagIgnoresResponses(t *testing.T) {
	suite.EachForm(t, `{"action":"tag"}`, func(t *testing.T, b *plugintest.Binding) {
		got, err := b.FilterText(plugintest.FilterText{Flags: abi.TextStreamed, Pieces: []string{"4242 4242 ", "4242 4242"}})
		if err != nil || got.Text != "4242 4242 4242 4242" || got.Held > 0 {
			t.Errorf("got %+v, %v, want the unchanged text", got, err)
		}
	})
}

// TestRejectsStreams checks that no part of a match is passed on before the response is rejected.
func TestRejectsStreams(t *testing.T) {
	suite.EachForm(t, `{"action":"refuse"}`, func(t *testing.T, b *plugintest.Binding) {
		for _, secret := range []string{"4242 4242 4242 4242", longKey, longToken} {
			got, err := b.FilterText(plugintest.FilterText{Flags: abi.TextStreamed, Pieces: append([]string{"It is "}, strings.SplitAfter(secret+" ", "2")...)})
			if err == nil || got.Text != "It is " {
				t.Errorf("%.40s: %.100q was passed on, error %v", secret, got.Text, err)
			}
		}
	})
}

func TestSettings(t *testing.T) {
	invalid := func(option string) string { return "option " + option + " has an invalid value" }
	suite.TestSettings(t, map[string]string{
		`{}`: "", everything: "", `{"action":"tag","tag":"x","mask":"","allow":["a","@b.c"]}`: "",
		`{"find":["cards"]}`: invalid("find"), `{"find":"card"}`: invalid("find"), `{"action":"drop"}`: invalid("action"), `{"mask":1}`: invalid("mask"),
		`{"mask":"` + strings.Repeat("x", 65) + `"}`: invalid("mask"), `{"tag":""}`: invalid("tag"), `{"allow":[""]}`: invalid("allow"), `{"allow":"x"}`: invalid("allow"),
		`{"allow":["` + strings.Repeat("x", 257) + `"]}`: invalid("allow"), `{"finds":[]}`: "unknown option finds",
	})
}

// TestCost checks that no text costs more fuel than the budget of its bytes.
func TestCost(t *testing.T) {
	b := suite
	b.Use.Settings = everything
	bound := b.Bind(t, plugintest.Module)
	for name, text := range map[string]string{
		"prose": "The quick brown fox jumps over the lazy dog, again and again. ", "digits": "4242 4242 4242 424 ", "numbers": "1 22 333 4444 55555 666666 ", "phones": "+1 23 45 67 +",
		"tokens": "eyJeyJeyJ", "keys": "sk-sk-", "hyphens": "sk-a-b-c-", "pem": "-----BEGIN PRIVATE KEY-----\n", "pem headers": "-----BEGIN PRIVATE KEY-----\na: b\na: b\n",
		"addresses": "a@b.", "at": "@@@@", "dots": "a@a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a", "ibans": "DE89 3704 0044 0532 0130 0", "hex": "a:b:c:d:e:f:1:", "colons": "::1::2::", "words": "secret access key ", "secrets": "secret",
		"dotted": "1.2.3.4.5.6.7.8.", "one run": "abcdefgh", "jwt dots": "eyJabcde.eyJabcde.", "escapes": `\n`, "spaces": "    ",
	} {
		text = strings.Repeat(text, 32<<10/len(text))
		got, err := bound.FilterText(plugintest.FilterText{Flags: abi.TextOfRequest | abi.TextComplete, Pieces: []string{text}})
		var perByte int64
		if err == nil {
			perByte = got.Fuel / int64(len(text))
		}
		t.Logf("%s: %d units per byte", name, perByte)
		if err != nil || perByte > 56 {
			t.Errorf("%s: got %d units of fuel per byte, error %v, want at most 56", name, perByte, err)
		}
	}
}

func BenchmarkText(b *testing.B) {
	suite.BenchmarkFilter(b, everything, strings.Repeat("Of course! The order of 12 May went to Mrs. Example at 12 Some Street, and her e-mail address is jane.doe@example.com. ", 4)+"Card 4242 4242 4242 4242. ")
}
