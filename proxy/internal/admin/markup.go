package admin

import (
	"cmp"
	"fmt"
	"html"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// markup builds a page. Package html/template is not used because it would make the binary 6 MB larger: it calls
// methods by reflection, so that the linker cannot remove any exported method.
type markup struct{ b []byte }

// put appends form with each $ replaced by the next argument, which is escaped for text and double-quoted attributes.
func (m *markup) put(form string, args ...any) {
	n := 0
	for i, part := range strings.Split(form, "$") {
		if i > 0 {
			m.b = append(m.b, html.EscapeString(fmt.Sprint(args[n]))...)
			n++
		}
		m.b = append(m.b, part...)
	}
	if n != len(args) {
		panic("admin: more arguments than placeholders in " + form)
	}
}

// number formats a count with spaces between thousands.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// scaled formats a number with three digits and a unit prefix.
func scaled(v float64) string {
	for _, step := range []struct {
		by   float64
		sign string
	}{{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if v >= step.by {
			return digits(v/step.by) + step.sign
		}
	}
	return digits(v)
}

// digits formats a number below a thousand with three significant digits.
func digits(v float64) string {
	precision := 0
	switch {
	case v == 0 || v >= 100:
	case v >= 10:
		precision = 1
	default:
		precision = 2
	}
	s := strconv.FormatFloat(v, 'f', precision, 64)
	if precision > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// dollars formats an amount of money in cents, or in hundredths of a cent if it is below a dollar.
func dollars(n cost.Nano) string {
	const cent = cost.Dollar / 100
	switch {
	case n < 0:
		return "-" + dollars(max(-n, 0))
	case n == 0:
		return "0"
	case n < cent/100:
		return "< 0.0001"
	case n < cost.Dollar:
		s := strconv.FormatFloat(n.Dollars(), 'f', 4, 64)
		return s[:4] + strings.TrimRight(s[4:], "0")
	}
	cents := int64(n / cent)
	if n%cent >= cent/2 {
		cents++
	}
	return fmt.Sprintf("%s.%02d", number(cents/100), cents%100)
}

// size formats a number of bytes.
func size(n int64) string {
	v := float64(n)
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if v < 1024 {
			return digits(v) + " " + unit
		}
		v /= 1024
	}
	return digits(v) + " TiB"
}

// period formats seconds for people.
func period(seconds float64) string {
	switch {
	case seconds <= 0:
		return "0"
	case seconds < 1:
		return digits(seconds*1000) + " ms"
	case seconds < 120:
		return digits(seconds) + " s"
	}
	d := time.Duration(seconds) * time.Second
	days, hours, minutes := int(d.Hours())/24, int(d.Hours())%24, int(d.Minutes())%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d d %d h", days, hours)
	case hours > 0:
		return fmt.Sprintf("%d h %d min", hours, minutes)
	}
	return fmt.Sprintf("%d min", minutes)
}

// Charts are one unit wide per sample and 40 units high, and are stretched to fit.

// bars draws a bar for each value. The failed part is drawn at the bottom in another color.
func (m *markup) bars(title string, values, failed []float64) {
	top := cmp.Or(peak(values), 1)
	m.put(`<svg class="chart" viewBox="0 0 $ 40" preserveAspectRatio="none" role="img"><title>$</title>`, keepSamples, title)
	for i, v := range values {
		x := keepSamples - len(values) + i
		if v > 0 {
			h := v / top * 39
			bad := min(failed[i]/top*39, h)
			m.put(`<rect class="bar" x="$" y="$" width="0.8" height="$"/>`, x, places(40-h), places(h-bad))
			if bad > 0 {
				m.put(`<rect class="fail" x="$" y="$" width="0.8" height="$"/>`, x, places(40-bad), places(bad))
			}
		}
	}
	m.put(`<line class="ground" x1="0" y1="40" x2="$" y2="40"/></svg>`, keepSamples)
}

// curve draws values as a line over an area.
func (m *markup) curve(title string, values []float64) {
	top := cmp.Or(peak(values), 1)
	m.put(`<svg class="chart" viewBox="0 0 $ 40" preserveAspectRatio="none" role="img"><title>$</title>`, keepSamples, title)
	if len(values) > 1 {
		first := keepSamples - len(values)
		var line strings.Builder
		for i, v := range values {
			fmt.Fprintf(&line, " %d,%s", first+i, places(40-v/top*38))
		}
		m.put(`<polygon class="area" points="$,40$ $,40"/>`, first, line.String(), keepSamples-1)
		m.put(`<polyline class="curve" points="$"/>`, strings.TrimSpace(line.String()))
	}
	m.put(`<line class="ground" x1="0" y1="40" x2="$" y2="40"/></svg>`, keepSamples)
}

// peak returns the maximum of values, or 0 if there are none.
func peak(values []float64) float64 {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	return most
}

// places formats a coordinate with two decimal places.
func places(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// gauge draws a bar that is filled to a fraction from 0 to 1.
func (m *markup) gauge(title string, part float64, class string) {
	const width = 72
	part = min(max(part, 0), 1)
	m.put(`<svg class="inline" width="$" height="8" role="img"><title>$</title><rect class="track" width="$" height="8" rx="4"/>`, width, title, width)
	if part > 0 {
		m.put(`<rect class="$" width="$" height="8" rx="4"/>`, class, places(max(part*width, 4)))
	}
	m.put(`</svg>`)
}

// maxDots is the maximum number of dots that are drawn for instances.
const maxDots = 24

// dots draws a dot for each instance, filled if it is in use.
func (m *markup) dots(title string, used, idle int) {
	n := min(used+idle, maxDots)
	m.put(`<svg class="inline" width="$" height="12" role="img"><title>$</title>`, max(n, 1)*14, title)
	for i := range n {
		class, r := "ok", 5.0
		if i >= used {
			class, r = "ring", 4.5
		}
		m.put(`<circle class="$" cx="$" cy="6" r="$"/>`, class, i*14+6, r)
	}
	m.put(`</svg>`)
}

// mark draws a dot for good and a cross for bad, so that color is not the only difference.
func (m *markup) mark(good bool) {
	if good {
		m.put(`<span class="good">●</span> `)
		return
	}
	m.put(`<span class="bad">✕</span> `)
}
