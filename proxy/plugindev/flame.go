package plugindev

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
)

// flame is a function in a flame graph, with the functions that it calls.
type flame struct {
	name   string
	units  int64
	callee []*flame
}

// add adds a sample. stack begins with the innermost function.
func (f *flame) add(stack []engine.Frame, units int64) {
	f.units += units
	if len(stack) == 0 {
		return
	}
	name := stack[len(stack)-1].Name
	i := slices.IndexFunc(f.callee, func(c *flame) bool { return c.name == name })
	if i < 0 {
		i = len(f.callee)
		f.callee = append(f.callee, &flame{name: name})
	}
	f.callee[i].add(stack[:len(stack)-1], units)
}

// Sizes of a flame graph, in pixels.
const (
	flameWidth   = 1200
	flameRow     = 18
	flameLetter  = 6.6 // width of a letter
	flameMinimum = 1.0 // narrower boxes are left out
)

// WriteFlameGraph writes the profile as a picture in SVG: a box for each function, as wide as the share of the fuel that
// it uses, above the functions that it calls.
func (p *Profile) WriteFlameGraph(w io.Writer) error {
	root := &flame{name: "all calls"}
	for _, s := range p.samples {
		root.add(s.stack, s.units)
	}
	var boxes strings.Builder
	depth := 0
	if root.units > 0 {
		depth = drawFlame(&boxes, root, 0, 0, float64(flameWidth)/float64(root.units))
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="monospace" font-size="11">
<rect width="100%%" height="100%%" fill="#fff"/>
%s</svg>
`, flameWidth, (depth+1)*flameRow, boxes.String())
	return err
}

// drawFlame draws a function at a position in a row, and its callees in the rows below. It returns the last row.
func drawFlame(w *strings.Builder, f *flame, x float64, row int, scale float64) (last int) {
	width := float64(f.units) * scale
	if width < flameMinimum {
		return row - 1
	}
	name := f.name[strings.LastIndexByte(f.name, '/')+1:]
	share := fmt.Sprintf("%s: %d units, %.1f%%", f.name, f.units, 100*width/flameWidth)
	// The color depends on the package, so that neighbours differ and versions of a picture do not.
	hue := 0
	pkg, _, _ := strings.Cut(name, ".")
	for _, c := range pkg {
		hue = (hue*31 + int(c)) % 60
	}
	fmt.Fprintf(w, `<g><title>%s</title><rect x="%.1f" y="%d" width="%.1f" height="%d" fill="hsl(%d,80%%,72%%)" stroke="#fff"/>`, escapeXML(share), x, row*flameRow, width, flameRow, hue)
	if letters := int((width - 6) / flameLetter); letters >= 3 {
		if len(name) > letters {
			name = name[:letters-1] + "…"
		}
		fmt.Fprintf(w, `<text x="%.1f" y="%d">%s</text>`, x+3, row*flameRow+13, escapeXML(name))
	}
	w.WriteString("</g>\n")
	slices.SortStableFunc(f.callee, func(a, b *flame) int { return cmp.Or(cmp.Compare(b.units, a.units), strings.Compare(a.name, b.name)) })
	last = row
	for _, c := range f.callee {
		last = max(last, drawFlame(w, c, x, row+1, scale))
		x += float64(c.units) * scale
	}
	return last
}

func escapeXML(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}
