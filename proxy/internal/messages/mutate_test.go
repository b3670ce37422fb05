package messages_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestDamagedRecordings runs the checks of FuzzReader on recorded streams with events that are changed, repeated,
// dropped or swapped.
func TestDamagedRecordings(t *testing.T) {
	var all [][][]byte
	for _, rec := range recordings(t, nativeRecordings) {
		var lines [][]byte
		for line := range bytes.Lines(rec.stream) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				lines = append(lines, bytes.TrimSpace(data))
			}
		}
		if len(lines) > 0 {
			all = append(all, lines)
		}
	}
	words := []string{`"tool_use"`, `"text"`, `"thinking"`, `"text_delta"`, `"input_json_delta"`, `"message_stop"`, `"error"`, `"index":1`, `null`, `{}`, `[`, `"`, `\ud83d`, `0`, "\xff"}
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		from := all[r.IntN(len(all))]
		lines := make([][]byte, 0, 16)
		for range 4 + r.IntN(8) {
			if r.IntN(4) == 0 {
				from = all[r.IntN(len(all))]
			}
			lines = append(lines, bytes.Clone(from[r.IntN(len(from))]))
		}
		lines = append(append([][]byte{bytes.Clone(from[0])}, lines...), bytes.Clone(from[len(from)-2]), bytes.Clone(from[len(from)-1]))
		for range r.IntN(4) {
			line := &lines[r.IntN(len(lines))]
			at := r.IntN(len(*line))
			word := words[r.IntN(len(words))]
			switch colon := bytes.IndexByte((*line)[at:], ':'); {
			case colon >= 0 && r.IntN(3) > 0: // the value of a member
				at += colon + 1
				end := at + bytes.IndexAny((*line)[at:], ",}")
				*line = append(append((*line)[:at:at], word...), (*line)[max(end, at):]...)
			default:
				*line = append(append((*line)[:at:at], word...), (*line)[at:]...)
			}
		}
		checkReader(t, bytes.Join(lines, []byte("\n")), false)
	})
}
