package report

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// Dimensions in pixels.
const (
	margin   = 16
	labels   = 330 // width of the names
	bars     = 460 // width of the bars
	barRow   = 14  // height of a bar with its gap
	groupGap = 14
)

// Picture draws the rows that have a ratio as an SVG, with a bar per subject for its cost relative to the bare proxy,
// and a line at the goal.
func (r *Report) Picture(w io.Writer) error {
	type bar struct {
		name, colour string
		value        float64
	}
	type group struct {
		row  *Row
		bars []bar
	}
	var groups []group
	longest := 2.0
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Ratio == nil || row.Bare == nil {
			continue
		}
		g := group{row: row, bars: []bar{{"bare fasthttp", "#9aa5b1", 1}}}
		if row.Nginx != nil {
			g.bars = append(g.bars, bar{"nginx", "#52606d", *row.Nginx / *row.Bare})
		}
		g.bars = append(g.bars, bar{"Sluice", "#2186eb", row.Ratio.Median})
		for _, b := range g.bars {
			longest = max(longest, b.value)
		}
		longest = max(longest, row.Goal)
		groups = append(groups, g)
	}
	height := 2*margin + 24
	for _, g := range groups {
		height += len(g.bars)*barRow + groupGap
	}
	scale := bars / longest
	width := margin + labels + bars + 60 + margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="%d" font-size="13" font-weight="bold" fill="#1f2933">Cost relative to a bare reverse proxy (lower is better; the line is the goal)</text>`+"\n", margin, margin+8)
	y := margin + 30
	for _, g := range groups {
		top := y - 2
		name := g.row.Case
		if g.row.Plugin != "" {
			name += ", " + g.row.Plugin
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#1f2933">%s</text>`+"\n", margin, y+9, html.EscapeString(name))
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#7b8794">%s</text>`+"\n", margin, y+9+barRow, html.EscapeString(g.row.Unit))
		for _, v := range g.bars {
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"><title>%s</title></rect>`+"\n", margin+labels, y, max(v.value*scale, 1), barRow-3, v.colour, html.EscapeString(v.name))
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" fill="#1f2933">%s %.2f</text>`+"\n", float64(margin+labels)+v.value*scale+4, y+9, html.EscapeString(v.name), v.value)
			y += barRow
		}
		if g.row.Goal > 0 {
			x := float64(margin+labels) + g.row.Goal*scale
			fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#cf1124" stroke-width="1.5"/>`+"\n", x, top, x, y)
		}
		y += groupGap
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
