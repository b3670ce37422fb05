package routing_test

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

var lineWord = regexp.MustCompile(`^[!-~]+$`)

// word decodes a name in a line.
func word(t *rapid.T, s string) string {
	name, err := url.PathUnescape(s)
	if err != nil || !lineWord.MatchString(s) {
		t.Fatalf("%q is not a valid word: %v", s, err)
	}
	return name
}

// TestLineIsParseable checks that all names and codes can be parsed from the line of a decision, whatever characters
// they and the router's explanation contain.
func TestLineIsParseable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 20, -1)
		p := sticky()
		var names []string
		for range rapid.IntRange(1, 6).Draw(t, "targets") {
			target := routing.Target{Provider: text.Draw(t, "provider"), Model: text.Draw(t, "model"), Weight: 1, Stats: new(routing.Stats), Budget: new(routing.Budget)}
			p.Targets, names = append(p.Targets, target), append(names, target.Provider+"/"+target.Model)
		}
		rule := text.Draw(t, "rule")
		allows := make([]bool, len(names))
		for i := range allows {
			allows[i] = rapid.Bool().Draw(t, "allowed")
		}
		allows[rapid.IntRange(0, len(names)-1).Draw(t, "one")] = true
		p.Rules = []routing.Rule{{Name: rule, Allows: allows}}
		var d routing.Decision
		if err := p.Decide(t.Context(), request("s"), now, &d); err != nil {
			t.Fatal(err)
		}
		d.Words = text.Draw(t, "words")
		d.Router = routing.RouterOrdered
		var attempts []string // "name why status code"
		for _, i := range d.Order() {
			why := rapid.SampledFrom([]string{"", "retry", "hedge"}).Draw(t, "why")
			code, status := text.Draw(t, "code"), rapid.SampledFrom([]int{400, 503}).Draw(t, "status")
			d.EndAttempt(d.StartAttempt(i, why), code, status, 7*time.Millisecond)
			attempts = append(attempts, fmt.Sprint(names[i], " ", why, " ", status, " ", code))
		}

		got := map[string][]string{}
		line := string(d.AppendLine(nil))
		for part := range strings.SplitSeq(line, "; ") {
			name, rest, _ := strings.Cut(part, " ")
			if _, twice := got[name]; twice {
				t.Fatalf("duplicate part %s in %q", name, line)
			}
			got[name] = strings.Split(strings.TrimPrefix(rest, "out "), ", ")
		}
		if len(got["rule"]) != 1 || word(t, got["rule"][0]) != rule {
			t.Fatalf("rule %q in %q", rule, line)
		}
		var order, left, gotAttempts []string
		for _, name := range got["order"] {
			order = append(order, word(t, name))
		}
		for _, element := range got["left"] {
			name, why, _ := strings.Cut(element, " ")
			if why != "(rule)" {
				t.Fatalf("%q in %q", element, line)
			}
			left = append(left, word(t, name))
		}
		for _, element := range got["attempts"] {
			words, why := strings.Fields(element), ""
			if len(words) == 5 {
				why = strings.Trim(words[1], "()")
				words = slices.Delete(words, 1, 2)
			}
			if len(words) != 4 || words[3] != "7ms" {
				t.Fatalf("%q in %q", element, line)
			}
			gotAttempts = append(gotAttempts, fmt.Sprint(word(t, words[0]), " ", why, " ", words[1], " ", word(t, words[2])))
		}
		var wantOrder, wantLeft []string
		for _, i := range d.Order() {
			wantOrder = append(wantOrder, names[i])
		}
		for i := range names {
			if d.Left(i) != routing.NotLeft {
				wantLeft = append(wantLeft, names[i])
			}
		}
		if !slices.Equal(order, wantOrder) || !slices.Equal(left, wantLeft) || !slices.Equal(gotAttempts, attempts) {
			t.Fatalf("line %q\norder %q, want %q\nleft %q, want %q\nattempts %q, want %q", line, order, wantOrder, left, wantLeft, gotAttempts, attempts)
		}
	})
}
