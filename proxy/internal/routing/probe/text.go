package probe

import (
	"bytes"
	"math"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

// parse reads a body in the Prometheus text format and returns the values of the metrics with these names. The value of
// a metric with several series is their sum. A metric that is absent, or whose value is not finite, is left out, and so
// is every line that is malformed. OpenMetrics differs only in comments, which are skipped.
func parse(body []byte, names []string) []routing.Measurement {
	sums := make([]float64, len(names))
	found := make([]bool, len(names))
	for line := range bytes.Lines(body) {
		name, rest := metricName(bytes.Trim(line, " \t\r\n"))
		if len(name) == 0 {
			continue
		}
		for i, want := range names {
			if string(name) != want {
				continue
			}
			if value, ok := sample(rest); ok {
				sums[i] += value
				found[i] = true
			}
		}
	}
	var values []routing.Measurement
	for i, name := range names {
		if found[i] && !math.IsNaN(sums[i]) && !math.IsInf(sums[i], 0) {
			values = append(values, routing.Measurement{Name: name, Value: sums[i]})
		}
	}
	return values
}

// metricName splits a line after the name that it begins with. The name is empty in a comment.
func metricName(line []byte) (name, rest []byte) {
	n := 0
	for n < len(line) {
		c := line[n]
		if letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == ':'; !letter && (n == 0 || c < '0' || c > '9') {
			break
		}
		n++
	}
	return line[:n], line[n:]
}

// sample returns the value of a series, whose line continues after the name with labels in braces, if any, the value, and
// possibly a timestamp.
func sample(rest []byte) (float64, bool) {
	if len(rest) > 0 && rest[0] == '{' {
		end := labelsEnd(rest)
		if end < 0 {
			return 0, false
		}
		rest = rest[end:]
	} else if len(rest) == 0 || rest[0] != ' ' && rest[0] != '\t' {
		return 0, false
	}
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0, false
	}
	value, err := strconv.ParseFloat(string(fields[0]), 64)
	return value, err == nil
}

// labelsEnd returns the position after the brace that closes the labels, or -1. Braces within values do not count.
func labelsEnd(labels []byte) int {
	quoted := false
	for i := 0; i < len(labels); i++ {
		switch c := labels[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && c == '}':
			return i + 1
		}
	}
	return -1
}
