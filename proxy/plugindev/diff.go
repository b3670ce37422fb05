package plugindev

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	maxDiffLines = 3  // lines shown of each side
	maxDiffWidth = 96 // bytes shown of a line
)

// Diff shows the first difference of two texts in a few lines: the section, the wanted lines and the actual ones, with
// long lines cut to the part around the difference. It is empty if the texts are the same.
func Diff(want, got string) string { return diff(want, got, "want", "got ") }

// diff is like Diff, with names of the two texts, which have the same length.
func diff(want, got, wantName, gotName string) string {
	if want == got {
		return ""
	}
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	first := 0
	for first < len(w) && first < len(g) && w[first] == g[first] {
		first++
	}
	end := 0
	for end < len(w)-first && end < len(g)-first && w[len(w)-1-end] == g[len(g)-1-end] {
		end++
	}
	section := ""
	for _, line := range w[:min(first+1, len(w))] {
		if strings.HasPrefix(line, "-- ") {
			section = " (" + strings.Trim(line, "- ") + ")"
		}
	}
	w, g = w[first:len(w)-end], g[first:len(g)-end]
	at := 0
	if len(w) > 0 && len(g) > 0 {
		for at < len(w[0]) && at < len(g[0]) && w[0][at] == g[0][at] {
			at++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  line %d%s\n", first+1, section)
	for _, side := range []struct {
		mark  string
		lines []string
	}{{wantName, w}, {gotName, g}} {
		if len(side.lines) == 0 {
			fmt.Fprintf(&b, "  %s  (nothing)\n", side.mark)
		}
		for i, line := range side.lines {
			if i == maxDiffLines {
				fmt.Fprintf(&b, "  %*s  and %d more lines\n", len(side.mark), "", len(side.lines)-i)
				break
			}
			from := 0
			if i == 0 {
				from = at
			}
			fmt.Fprintf(&b, "  %s  %s\n", side.mark, excerptAround(line, from))
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// excerptAround cuts a long line to the part around the byte at an index.
func excerptAround(line string, at int) string {
	if len(line) <= maxDiffWidth {
		return line
	}
	from := max(0, min(at-maxDiffWidth/3, len(line)-maxDiffWidth))
	to := min(from+maxDiffWidth, len(line))
	for from > 0 && !utf8.RuneStart(line[from]) {
		from--
	}
	for to < len(line) && !utf8.RuneStart(line[to]) {
		to++
	}
	s := line[from:to]
	if from > 0 {
		s = "…" + s
	}
	if to < len(line) {
		s += "…"
	}
	return s
}

// excerpt returns the first n lines of a text, with long lines cut.
func excerpt(text string, n int) string {
	lines := strings.SplitN(strings.TrimRight(text, "\n"), "\n", n+1)
	if len(lines) > n {
		lines[n] = "…"
	}
	for i, line := range lines {
		lines[i] = excerptAround(line, 0)
	}
	return strings.Join(lines, "\n")
}

// indent puts two spaces before every line.
func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
