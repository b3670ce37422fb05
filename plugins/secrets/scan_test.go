package secrets

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const allKinds = 1<<kinds - 1

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// masked returns the result of masking a text that arrives in pieces. It also checks what the host requires of the
// scanner.
func masked(t failer, find uint32, pieces ...string) string {
	t.Helper()
	s := scanner{find: find}
	var out, held []byte
	for i := 0; i <= len(pieces); i++ {
		text, complete := append([]byte(nil), held...), i == len(pieces)
		if !complete {
			text = append(text, pieces[i]...)
		}
		s.scan(text, len(held), complete)
		at := 0
		for _, f := range s.found {
			if f.from < at || f.to <= f.from || f.to > s.hold {
				t.Fatalf("found %v, which overlap or are held from byte %d of %d on", s.found, s.hold, len(text))
			}
			out = append(out, text[at:f.from]...)
			if f.kind != none {
				out = append(append(append(out, '['), names[f.kind]...), ']')
			}
			at = f.to
		}
		if s.hold < at || complete && s.hold != len(text) || len(text)-s.hold > 1024 {
			t.Fatalf("held from byte %d of %d on, complete %t, last match ends at %d", s.hold, len(text), complete, at)
		}
		out = append(out, text[at:s.hold]...)
		held = append(held[:0], text[s.hold:]...)
	}
	return string(out)
}

var (
	longToken = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + strings.Repeat("dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U", 60)
	keyLine   = "MIIEpAIBAAKCAQEA3Tz2mr7SZiAMfQyuvBjM9OiJjRazXBZ1BjP5CE/Wm/Rr500P\n"
	longKey   = "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat(keyLine, 25) + "Rr500P==\n-----END RSA PRIVATE KEY-----"
)

// examples contains test numbers published by issuers, registries and vendors, and invented keys in their formats.
var examples = []struct{ text, want string }{
	// Card numbers: https://docs.stripe.com/testing and others.
	{"4242424242424242", "[card]"}, {"card 4242 4242 4242 4242, 12/34", "card [card], 12/34"}, {"4000-0566-5566-5556", "[card]"},
	{"378282246310005", "[card]"}, {"3714 496353 98431", "[card]"}, {"6011111111111117.", "[card]."}, {"3056930009020004", "[card]"},
	{"36227206271667", "[card]"}, {"3566002020360505", "[card]"}, {"6200000000000005", "[card]"}, {"2223003122003222", "[card]"},
	{"4222222222222", "[card]"}, {"6759649826438453", "[card]"}, {"4242 4242 4242 4242 2034", "[card] 2034"}, {"No.:4242424242424242", "No.:[card]"},
	{"4242424242424241", "4242424242424241"}, {"4242 4242-4242 4242", "4242 4242-4242 4242"}, {"42424242424242424242424242424242", "42424242424242424242424242424242"},
	{"x4242424242424242", "x4242424242424242"}, {"4242424242424242x", "4242424242424242x"}, {"0.4242424242424242", "0.4242424242424242"},
	{"1000000000000008", "1000000000000008"}, {"424242 4242424242", "424242 4242424242"}, {"卡号4242424242424242。", "卡号[card]。"},
	{"4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2", "4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2"}, {"4242 4242 4242 4242 12ab", "[card] 12ab"},
	{strings.Repeat("9", 80) + "4242424242424242", strings.Repeat("9", 80) + "4242424242424242"},

	// IBANs from the SWIFT registry.
	{"DE89370400440532013000", "[iban]"}, {"DE89 3704 0044 0532 0130 00!", "[iban]!"}, {"GB29 NWBK 6016 1331 9268 19", "[iban]"}, {"NO9386011117947", "[iban]"},
	{"MT84MALT011000012345MTLCAST001S", "[iban]"}, {"FR14-2004-1010-0505-0001-3M02-606", "[iban]"}, {"IBAN:BE68539007547034", "IBAN:[iban]"},
	{"DE88370400440532013000", "DE88370400440532013000"}, {"DE8937040044053201300", "DE8937040044053201300"}, {"XX89370400440532013000", "XX89370400440532013000"},
	{"ADE89370400440532013000", "ADE89370400440532013000"}, {"DE89370400440532013000A", "DE89370400440532013000A"}, {"DE89 37040044053201300 0", "DE89 37040044053201300 0"},

	// The number on the sample card in Woolworth's wallets, and numbers that are never assigned.
	{"SSN 078-05-1120.", "SSN [ssn]."}, {"000-12-3456 666-12-3456 900-12-3456 123-00-4567 123-45-0000", "000-12-3456 666-12-3456 900-12-3456 123-00-4567 123-45-0000"},
	{"078-05-11200", "078-05-11200"}, {"1078-05-1120", "1078-05-1120"}, {"078-05-1120-1", "078-05-1120-1"}, {"A-078-05-1120", "A-078-05-1120"}, {"078051120", "078051120"},

	{"Write to jane.doe+news@example.com.", "Write to [email]."}, {"<a@b.co>", "<[email]>"}, {"mailto:x_y@mail.example.co.uk?subject", "mailto:[email]?subject"},
	{"a@b", "a@b"}, {"a@b.c", "a@b.c"}, {"@example.com", "@example.com"}, {"a.@example.com", "a.@example.com"}, {"user@127.0.0.1", "user@[ipv4]"},
	{"git@github.com:org/repo", "[email]:org/repo"}, {"a@example.com-", "a@example.com-"}, {"a@b@example.com", "a@[email]"}, {"...a@example.com", "...[email]"},
	{strings.Repeat("a", 70) + "@example.com", strings.Repeat("a", 6) + "[email]"}, {"a@example.c0m", "a@example.c0m"}, {"a@exa_mple.com", "a@exa_mple.com"},
	{"x@" + strings.Repeat("a.", 100) + "com", "x@" + strings.Repeat("a.", 100) + "com"},

	{"+1 (415) 555-0132", "[phone]"}, {"call +493012345678 now", "call [phone] now"}, {"+49 (0)30 1234-5678.", "[phone]."}, {"+44 20 7946 0958 x12", "[phone] x12"},
	{"+1234567", "+1234567"}, {"+0123456789", "+0123456789"}, {"1+23456789012", "1+23456789012"}, {"+1234567890123456", "+1234567890123456"}, {"C++ 1234567890", "C++ 1234567890"},

	{"host 192.0.2.17:8080", "host [ipv4]:8080"}, {"192.0.2.17.", "[ipv4]."}, {"1.2.3.4.5", "1.2.3.4.5"}, {"v1.2.3.4", "v1.2.3.4"}, {"256.1.1.1", "256.1.1.1"}, {"01.2.3.4", "01.2.3.4"},
	{"10.0.0.0/8", "[ipv4]/8"}, {"1.2.3", "1.2.3"}, {"1.2.3.4a", "1.2.3.4a"},
	{"2001:db8::8a2e:370:7334", "[ipv6]"}, {"[2001:db8:0:0:0:0:0:1]:443", "[[ipv6]]:443"}, {"::ffff:1:2", "[ipv6]"}, {"at 12:34:56", "at 12:34:56"}, {"a::b", "a::b"},
	{"2001:db8::1:2: next", "[ipv6]: next"}, {"1::2::3:4:", "1::[ipv6]:"}, {"1:::2:3", "1:::2:3"}, {"x::y", "x::y"},

	// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
	{"AKIAIOSFODNN7EXAMPLE", "[api_key]"}, {"id=ASIAIOSFODNN7EXAMPLE;", "id=[api_key];"}, {"AKIAIOSFODNN7EXAMPL", "AKIAIOSFODNN7EXAMPL"}, {"AKIAiosfodnn7example", "AKIAiosfodnn7example"},
	{"AKIAIOSFODNN7EXAMPLEX", "AKIAIOSFODNN7EXAMPLEX"},
	{"aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n", "aws_secret_access_key = [api_key]\n"},
	{`"SecretAccessKey": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"`, `"SecretAccessKey": "[api_key]"`},
	{"AWS_SECRET_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SECRET_KEY=[api_key]"},
	{"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}, {"the secret access key is long", "the secret access key is long"},
	// A revoked token. The checksum: https://github.blog/2021-04-05-behind-githubs-new-authentication-token-formats/
	{"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", "[api_key]"}, {"ghp_zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq18", "ghp_zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq18"},
	{"ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}, {"https://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@github.com", "https://[api_key]@github.com"},
	{"github_pat_11ABCDEFG0abcdefghijkl_" + strings.Repeat("Ab1", 19) + "xy", "[api_key]"}, {"github_pat_short", "github_pat_short"},
	{"sk-" + strings.Repeat("aB3", 6) + "xyT3BlbkFJ" + strings.Repeat("cD4", 7), "[api_key]"}, {"sk-proj-a_b-" + strings.Repeat("aB3", 6) + "T3BlbkFJ-x", "[api_key]"},
	{"sk-ant-api03-" + strings.Repeat("aB3_", 23) + "-AA.", "[api_key]."}, {"sk-0123456789abcdef0123456789abcdef", "[api_key]"}, {"sk-or-v1-0123456789abcdef0123456789abcdef", "[api_key]"},
	{"risk-management and task-force", "risk-management and task-force"}, {"sk-ant-me", "sk-ant-me"}, {"sk-" + strings.Repeat("a-b-", 60), "sk-" + strings.Repeat("a-b-", 60)},
	{"xoxb-123456789012-123456789012-abcdefABCDEF", "[api_key]"}, {"xapp-1-A0123456789-1234567890123-abcdef", "[api_key]"}, {"xoxo-hugs-and-kisses-to-all-of-you", "xoxo-hugs-and-kisses-to-all-of-you"},
	{"key=AIzaSyA0123456789abcdefghijklmnopqrstuv", "key=[api_key]"}, {"AIzaSyA012345", "AIzaSyA012345"},
	{"sk_live_0123456789abcdefABCDEF", "[api_key]"}, {"rk_live_0123456789abcdefABCDEF", "[api_key]"}, {"sk_test_0123456789abcdefABCDEF", "sk_test_0123456789abcdefABCDEF"},

	// A shortened version of the token in RFC 7519.
	{"Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U.", "Bearer [jwt]."},
	{"eyJhbGciOiJub25lIn0.eyJzdWIiOiIxMjM0NTY3ODkwIn0.", "[jwt]."}, {"eyJhbGciOiJIUzI1NiJ9", "eyJhbGciOiJIUzI1NiJ9"}, {"eyJhbGciOiJIUzI1NiJ9.abc", "eyJhbGciOiJIUzI1NiJ9.abc"},
	{"a " + longToken + ". b", "a [jwt]. b"}, {strings.Repeat("eyJ", 300) + ".eyJzdWIiOiI", strings.Repeat("eyJ", 130) + "[jwt]"},
	{strings.Repeat("x", 100) + longToken, strings.Repeat("x", 100) + "[jwt]"},

	{"key:\n" + longKey + "\nend", "key:\n[private_key]\nend"}, {strings.ReplaceAll(longKey, "\n", `\n`) + `\n"`, `[private_key]\n"`},
	{"-----BEGIN PRIVATE KEY-----\n" + keyLine + "-----END PRIVATE KEY-----", "[private_key]"}, {"-----BEGIN EC PRIVATE KEY----- " + keyLine + "and more", "[private_key]\nand more"},
	{"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,3F17F5316E2BAC89\n\n" + keyLine + "-----END RSA PRIVATE KEY-----\n", "[private_key]\n"},
	{"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n" + keyLine + "=abcd\n-----END PGP PRIVATE KEY BLOCK-----", "[private_key]"},
	{"A key begins with -----BEGIN PRIVATE KEY----- and goes on.", "A key begins with -----BEGIN PRIVATE KEY----- and goes on."},
	{"-----BEGIN CERTIFICATE-----\n" + keyLine, "-----BEGIN CERTIFICATE-----\n" + keyLine}, {"x-----BEGIN PRIVATE KEY-----\n" + longKey, "x-----BEGIN PRIVATE KEY-----\n[private_key]"},
	{longKey + longKey, "[private_key][private_key]"}, {longToken + " " + longKey, "[jwt] [private_key]"},

	{"", ""}, {"Nothing to find here.", "Nothing to find here."}, {"a@b.co,4242424242424242;078-05-1120", "[email],[card];[ssn]"}, {"sk-sk-sk-sk-", "sk-sk-sk-sk-"},
	{"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-4242424242424242", "[api_key]-[card]"},
}

func TestFinds(t *testing.T) {
	for _, e := range examples {
		if got := masked(t, allKinds, e.text); got != e.want {
			t.Errorf("%.120q\ngot  %.200q\nwant %.200q", e.text, got, e.want)
		}
	}
}

// TestSplitTextGivesSameResult splits each example at every byte, and into pieces of equal size.
func TestSplitTextGivesSameResult(t *testing.T) {
	for _, e := range examples {
		text := "see " + e.text + " ok"
		want := masked(t, allKinds, text)
		step := 1 + len(text)/400
		for at := 0; at < len(text); at += step {
			if got := masked(t, allKinds, text[:at], text[at:]); got != want {
				t.Fatalf("%.120q split at %d\ngot  %q\nwant %q", text, at, got, want)
			}
		}
		for _, size := range []int{1, 2, 3, 7, 16, 64, 500} {
			if got := masked(t, allKinds, cut(text, size)...); got != want {
				t.Fatalf("%.120q in pieces of %d\ngot  %q\nwant %q", text, size, got, want)
			}
		}
	}
}

func cut(text string, size int) (pieces []string) {
	for len(text) > size {
		pieces, text = append(pieces, text[:size]), text[size:]
	}
	return append(pieces, text)
}

// TestRandomSplitGivesSameResult splits random combinations of examples and parts of them.
func TestRandomSplitGivesSameResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(1, 6).Draw(t, "parts") {
			e := examples[rapid.IntRange(0, len(examples)-1).Draw(t, "example")].text
			from := rapid.IntRange(0, len(e)).Draw(t, "from")
			if rapid.Bool().Draw(t, "whole") {
				from = 0
			}
			text.WriteString(e[from:])
			text.WriteString(rapid.SampledFrom([]string{"", " ", ".", "-", ":", "@", "eyJ", "+", "_", "4242", "a", "é", "\n", "-----BEGIN PRIVATE KEY-----", "sk-", `\n`}).Draw(t, "between"))
		}
		find := rapid.Uint32Range(0, allKinds).Draw(t, "find")
		if rapid.Bool().Draw(t, "all") {
			find = allKinds
		}
		checkPieces(t, find, text.String(), rapid.SliceOf(rapid.IntRange(0, 700)).Draw(t, "sizes"))
	})
}

// checkPieces checks that a text in pieces of certain sizes has the same result as the complete text.
func checkPieces(t failer, find uint32, text string, sizes []int) {
	var pieces []string
	rest := text
	for _, n := range sizes {
		n = min(n, len(rest))
		pieces, rest = append(pieces, rest[:n]), rest[n:]
	}
	pieces = append(pieces, rest)
	if got, want := masked(t, find, pieces...), masked(t, find, text); got != want {
		t.Fatalf("%q in pieces of %v\ngot  %q\nwant %q", text, sizes, got, want)
	}
}

func FuzzPieces(f *testing.F) {
	for _, e := range examples {
		f.Add([]byte(e.text+" "+e.text), uint16(3), uint16(40))
	}
	f.Fuzz(func(t *testing.T, text []byte, first, size uint16) {
		sizes := []int{int(first)}
		for range 2 * len(text) / (1 + int(size)) {
			sizes = append(sizes, 1+int(size))
		}
		checkPieces(t, allKinds, string(text), sizes)
	})
}
