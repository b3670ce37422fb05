package jsondoc_test

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// parse parses a document that must be accepted.
func parse(tb testing.TB, body string) *jsondoc.Doc {
	tb.Helper()
	d := new(jsondoc.Doc)
	if err := d.Parse([]byte(body), jsondoc.Limits{}); err != nil {
		tb.Fatalf("Parse(%.80q): %v", body, err)
	}
	return d
}

func TestParseAccepts(t *testing.T) {
	for name, body := range map[string]string{
		"null":                          `null`,
		"true":                          ` true `,
		"false":                         "\tfalse\n",
		"zero":                          `0`,
		"minus zero":                    `-0`, // covers: F118
		"decimal":                       `-12.50`,
		"exponents":                     `[1e5,1E+5,1e-5,0e0,0.0e-0]`,
		"largest float64":               `1.7976931348623157e308`,
		"rounds to the largest":         `1.7976931348623158e308`,
		"underflow is zero":             `1e-9999`,
		"zero with an exponent":         `0e9999`,
		"integer of more than 64 bits":  `123456789012345678901234567890`, // covers: V14
		"308 digits":                    strings.Repeat("9", 308),
		"fraction of a million digits":  "0." + strings.Repeat("3", 1<<20),
		"empty containers":              `[{},[],""]`,
		"white space everywhere":        " { \"a\" : [ 1 , 2 ] , \"b\" : { } } \r\n",
		"escapes":                       `"\"\\\/\b\f\n\r\t\u00e9\u0000"`,
		"NUL as an escape":              `"a\u0000b"`, // covers: V13
		"surrogate pair":                `"\ud83d\uDE00"`,
		"UTF-8 of all lengths":          `"é€😀"`,
		"first and last of each length": "\"\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff\"",
		"noncharacters":                 "\"\ufdd0\ufffe\"",
		"DEL":                           "\"\x7f\"",
		"same name, different objects":  `{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}`,
		"names with a common prefix":    `{"aaaaaaaaaaaaaaaa1":1,"aaaaaaaaaaaaaaaa2":2}`,
		"names of one signature":        `{"abc":1,"acc":2,"adc":3,"aec":4}`,
		"empty name":                    `{"":1}`,
		"128 levels":                    strings.Repeat("[", 128) + strings.Repeat("]", 128),
	} {
		t.Run(name, func(t *testing.T) {
			d := parse(t, body)
			if got := string(d.Root().Raw()); got != strings.Trim(body, " \t\r\n") {
				t.Errorf("Raw returned %.80q", got)
			}
		})
	}
}

func TestParseRejects(t *testing.T) {
	const (
		end    = "unexpected end of the document"
		value  = "expected a value"
		name   = "expected a member name in quotes"
		more   = "expected a comma or the end of the array or object"
		after  = "there is data after the document"
		utf8   = "invalid UTF-8"
		ctl    = "an unescaped control character in a string"
		dup    = "a member name appears twice in one object"
		digit  = "expected a digit"
		large  = "a number is too large"
		escape = "unknown escape sequence"
		hex    = `expected four hexadecimal digits after \u`
		low    = "an unpaired low surrogate"
		high   = "an unpaired high surrogate"
		colon  = "expected a colon"
	)
	for _, test := range []struct {
		name, body string
		offset     int
		reason     string
	}{
		// covers: F114
		{"empty body", "", 0, "the document is empty"},
		{"only white space", " \n", 2, "the document is empty"},
		{"trailing garbage", `{} x`, 3, after},
		{"two documents", "{}\n{}", 3, after},
		{"NUL after the document", "{}\x00", 2, after},
		{"byte order mark", "\xEF\xBB\xBF{}", 0, "the document begins with a byte order mark"},
		{"unknown literal", `yes`, 0, value},
		{"truncated true", `tru`, 0, value},
		{"truncated false", `fals`, 0, value},
		{"truncated null", `[nul`, 1, value},
		{"literal with a suffix", `nulls`, 4, after},
		// covers: F118
		{"NaN", `NaN`, 0, value},
		{"Infinity", `[Infinity]`, 1, value},
		{"minus Infinity", `-Infinity`, 1, digit},
		{"1e999", `{"a":1e999}`, 5, large},
		{"minus 1e999", `-1e999`, 0, large},
		{"first number that is infinite", `1.7976931348623159e308`, 0, large},
		{"a million digits", `[` + strings.Repeat("9", 1<<20) + `]`, 1, large}, // covers: F118
		{"309 nines", strings.Repeat("9", 309), 0, large},
		{"exponent out of range", `1e10000`, 0, "a number's exponent is too large"},
		{"negative exponent out of range", `1e-99999999999999999999`, 0, "a number's exponent is too large"},
		{"leading zero", `01`, 1, after},
		{"plus sign", `+1`, 0, value},
		{"leading point", `.5`, 0, value},
		{"trailing point", `1.`, 2, digit},
		{"only a minus sign", `-`, 1, digit},
		{"exponent without digits", `1e+`, 3, digit},
		{"hexadecimal", `0x10`, 1, after},
		{"open array", `[1`, 2, end},
		{"open array after comma", `[1,`, 3, end},
		{"open object", `{`, 1, end},
		{"open object after name", `{"a"`, 4, end},
		{"open object after colon", `{"a":`, 5, end},
		{"open object after value", `{"a":1`, 6, end},
		{"open object after comma", `{"a":1,`, 7, end},
		{"open string", `"abc`, 4, end},
		{"open escape", `"abc\`, 5, end},
		{"trailing comma", `[1,]`, 3, value},
		{"trailing comma in an object", `{"a":1,}`, 7, name},
		{"leading comma", `[,1]`, 1, value},
		{"missing comma", `[1 2]`, 3, more},
		{"wrong bracket", `[1}`, 2, more},
		{"wrong brace", `{"a":1]`, 6, more},
		{"number as a name", `{1:2}`, 1, name},
		{"missing colon", `{"a" 1}`, 5, colon},
		{"single quotes", `{'a':1}`, 1, name},
		{"comment", `[/*x*/]`, 1, value},
		{"raw line feed in a string", "\"a\nb\"", 2, ctl},
		{"raw NUL in a string", "\"a\x00\"", 2, ctl},
		{"control character at the end of eight bytes", "\"abcdef\x1f\"", 7, ctl},
		{"unknown escape", `"\x41"`, 1, escape},
		{"truncated hexadecimal", `"\u12"`, 1, hex},
		{"invalid hexadecimal", `"\u12g4"`, 1, hex},
		// covers: V13
		{"lone high surrogate", `"\ud83d"`, 1, high},
		{"lone low surrogate", `"\ude00"`, 1, low},
		{"high surrogate twice", `"\ud83d\ud83d"`, 1, high},
		{"high surrogate before text", `"\ud83dxxxxxxxx"`, 1, high},
		{"high surrogate before another escape", `"\ud83d\nxxxxxx"`, 1, high},
		{"lone surrogate in a name", `{"\udc00":1}`, 2, low},
		// covers: F117
		{"lone continuation byte", "\"\x80\"", 1, utf8},
		{"overlong sequence of two bytes", "\"\xC0\x80xx\"", 1, utf8},
		{"overlong slash", "\"\xC1\xBFxx\"", 1, utf8},
		{"overlong sequence of three bytes", "\"\xE0\x9F\xBFx\"", 1, utf8},
		{"overlong sequence of four bytes", "\"\xF0\x8F\xBF\xBF\"", 1, utf8},
		{"surrogate as UTF-8", "\"\xED\xA0\x80x\"", 1, utf8},
		{"beyond Unicode", "\"\xF4\x90\x80\x80\"", 1, utf8},
		{"impossible byte", "\"\xFFxxx\"", 1, utf8},
		{"truncated sequence", "\"\xE2\x82\"", 1, utf8},
		{"truncated sequence at the end", "\"\xE2\x82", 1, utf8},
		{"sequence with a quote in it", "\"ok \xF0\x9F\"\x80\"", 4, utf8},
		{"outside of a string", "[\xC3\xA9]", 1, value},
		// covers: F116
		{"duplicate name", `{"model":"a","x":0,"model":"b"}`, 19, dup},
		{"duplicate name, one escaped", `{"model":"a","m\u006fdel":"b"}`, 13, dup},
		{"duplicate name, both escaped", `{"mod\u0065l":"a","m\u006fdel":"b"}`, 18, dup},
		{"duplicate name, different hexadecimal digits", `{"\u00e9":1,"\u00E9":1}`, 12, dup},
		{"duplicate name, escaped surrogates", `{"😀":1,"\ud83d\ude00":1}`, 10, dup},
		{"duplicate name, nested", `[{"a":[{"b":1,"c":{},"b":2}]}]`, 21, dup},
		{"duplicate empty name", `{"":1,"":1}`, 6, dup},
		// covers: F115
		{"129 levels", strings.Repeat("[", 129), 128, "the document is nested deeper than 128 levels"},
		{"10,000 levels", strings.Repeat(`{"a":`, 10_000), 640, "the document is nested deeper than 128 levels"},
		{"1,000,000 levels", strings.Repeat("[", 1_000_000), 128, "the document is nested deeper than 128 levels"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var d jsondoc.Doc
			err := d.Parse([]byte(test.body), jsondoc.Limits{})
			var syntax *jsondoc.SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("Parse returned %v, want a SyntaxError", err)
			}
			if syntax.Offset != test.offset || syntax.Reason != test.reason {
				t.Errorf("rejected at %d: %s\nwant at %d: %s", syntax.Offset, syntax.Reason, test.offset, test.reason)
			}
			if want := fmt.Sprintf("json: %s at byte %d", test.reason, test.offset); err.Error() != want {
				t.Errorf("error %q, want %q", err, want)
			}
			if d.Root().Exists() || d.Size() != 0 {
				t.Error("a rejected document has a root")
			}
		})
	}
}

func TestParseEnforcesLimits(t *testing.T) {
	for _, test := range []struct {
		body   string
		limits jsondoc.Limits
		ok     bool
	}{
		{`[[[1]]]`, jsondoc.Limits{Depth: 3}, true},
		{`[[[[]]]]`, jsondoc.Limits{Depth: 3}, false},
		{`[{"a":[]}]`, jsondoc.Limits{Depth: 3}, true},
		{`[1,2,3]`, jsondoc.Limits{Nodes: 4}, true},
		{`[1,2,3]`, jsondoc.Limits{Nodes: 3}, false},
		{`{"a":1}`, jsondoc.Limits{Nodes: 3}, true},
		{`{"a":1}`, jsondoc.Limits{Nodes: 2}, false},
		{`{"a":1,"b":2}`, jsondoc.Limits{Nodes: 3}, false},
		{"[" + strings.Repeat("0,", jsondoc.DefaultNodes-2) + "0]", jsondoc.Limits{}, true},
		{"[" + strings.Repeat("0,", jsondoc.DefaultNodes-1) + "0]", jsondoc.Limits{}, false},
	} {
		var d jsondoc.Doc
		if err := d.Parse([]byte(test.body), test.limits); (err == nil) != test.ok {
			t.Errorf("Parse(%.40q, %+v) returned %v", test.body, test.limits, err)
		}
	}
}

// TestParseFindsEndOfString places the end of a string at every offset within an eight-byte step.
func TestParseFindsEndOfString(t *testing.T) {
	for n := range 40 {
		plain := strings.Repeat("x", n)
		for _, test := range []struct {
			tail string
			ok   bool
		}{
			{`"`, true}, {`\n"`, true}, {`é"`, true}, {`€"`, true}, {`😀"`, true}, {`\ud83d\ude00"`, true},
			{"\x1f\"", false}, {"\x80\"", false}, {"\xC3\"", false}, {"\xE2\x82\"", false}, {`\"`, false}, {``, false},
			{`\ud83d"`, false}, {"\xF0\x9F\x98\"", false},
		} {
			var d jsondoc.Doc
			if err := d.Parse([]byte(`"`+plain+test.tail), jsondoc.Limits{}); (err == nil) != test.ok {
				t.Errorf("%d bytes and %q: error %v", n, test.tail, err)
			}
		}
	}
}

// TestParseRejectsNumbersAboveFloat64 uses 2^1024 - 2^970, the smallest number that rounds to infinity.
func TestParseRejectsNumbersAboveFloat64(t *testing.T) {
	bit := func(n uint) *big.Int { return new(big.Int).Lsh(big.NewInt(1), n) }
	limit := new(big.Int).Sub(bit(1024), bit(970))
	below := new(big.Int).Sub(limit, big.NewInt(1)).String()
	digits := limit.String()
	for _, test := range []struct {
		number string
		ok     bool
	}{
		{digits, false},
		{below, true},
		{below + ".9999", true},
		{digits + ".0000", false},
		{"-" + digits, false},
		{digits[:1] + "." + digits[1:] + "e308", false},
		{below[:1] + "." + below[1:] + "e308", true},
		{"0.000" + digits + "e312", false},
		{"0.000" + below + "e312", true},
		{digits + "000e-3", false},
		{below + "999e-3", true},
		{strings.TrimRight(digits, "0") + "e" + fmt.Sprint(len(digits)-len(strings.TrimRight(digits, "0"))), false},
		{strings.Repeat("1", 4000) + "e-3700", true},
		{strings.Repeat("1", 4000) + "e-3600", false},
		{"0." + strings.Repeat("0", 4000) + "1e4309", true},
		{"0." + strings.Repeat("0", 4000) + "1e4310", false},
	} {
		var d jsondoc.Doc
		if err := d.Parse([]byte(test.number), jsondoc.Limits{}); (err == nil) != test.ok {
			t.Errorf("%.60s…: %v, want ok=%v", test.number, err, test.ok)
		}
	}
}

// manyMembers returns an object of n members. Their names share a long prefix, and every third one is escaped.
func manyMembers(n int, last string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		escaped := ""
		if i%3 == 0 {
			escaped = `\u006e`
		}
		fmt.Fprintf(&b, `"member %s%06d":%d,`, escaped, i, i)
	}
	b.WriteString(`"` + last + `":0}`)
	return b.String()
}

func TestParseFindsDuplicatesInObjectsOfAnySize(t *testing.T) {
	for n := 1; n < 70; n++ {
		for i := 0; i < n; i++ {
			body := manyMembers(n, fmt.Sprintf("member %06d", i))
			if i%3 == 0 {
				body = manyMembers(n, fmt.Sprintf("member n%06d", i))
			}
			var d jsondoc.Doc
			if err := d.Parse([]byte(body), jsondoc.Limits{}); err == nil {
				t.Fatalf("duplicate of member %d of %d was accepted", i, n)
			}
		}
		parse(t, manyMembers(n, "another"))
	}
}

// TestParseIsLinear parses documents that would take minutes if parsing took quadratic time.
func TestParseIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("parses large documents")
	}
	const limit = 10 * time.Second
	for name, body := range map[string]string{
		"100,000 members":            manyMembers(100_000, "last"),
		"16 long escaped names":      manyMembers(16, `\n`+strings.Repeat("x", 1<<20)),
		"20,000 objects of 17":       "[" + strings.Repeat(manyMembers(17, "last")+",", 20_000) + "0]",
		"16 MiB of digits":           "0." + strings.Repeat("1", 16<<20),
		"escapes":                    `"` + strings.Repeat(`\ud83d\ude00`, 1<<20) + `"`,
		"10,000 arrays of depth 100": "[" + strings.Repeat(strings.Repeat("[", 100)+strings.Repeat("]", 100)+",", 10_000) + "0]",
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			parse(t, body)
			if took := time.Since(began); took > limit {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestParseReusesDocument(t *testing.T) {
	var d jsondoc.Doc
	for _, body := range []string{`{"a":[1,2,3]}`, `x`, `7`, `{"a":{"b":1}}`} {
		err := d.Parse([]byte(body), jsondoc.Limits{})
		if (err == nil) != (body != `x`) {
			t.Fatalf("Parse(%q) returned %v", body, err)
		}
	}
	if got := string(d.Pointer([]byte("/a/b")).Raw()); got != "1" {
		t.Errorf("/a/b: got %q, want 1", got)
	}
	d.Reset()
	if d.Root().Exists() || d.Root().Kind() != jsondoc.Invalid {
		t.Error("a Doc has a root after Reset")
	}
}
