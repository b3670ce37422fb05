package plugintest

import (
	"context"
	"math/bits"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// FilterText is a text for a filter.
type FilterText struct {
	What   abi.What
	Flags  abi.TextFlags // TextComplete if the text is passed in one call
	Tags   []string      // tags that the filter may set
	Pieces []string      // pieces of the text as they arrive, cut between characters
}

// FilteredText is the result of filtering a text.
type FilteredText struct {
	Text string
	Held int // the most bytes that the filter held back
	Tags []string
	Fuel int64 // 0 for a native plugin
}

// FilterText passes a text through the filter, piece by piece.
func (b *Binding) FilterText(t FilterText) (FilteredText, error) {
	var (
		filtering = plugin.Filtering{Tags: t.Tags}
		out       FilteredText
		text      strings.Builder
		held      []byte
	)
	call := func(piece string, flags abi.TextFlags) error {
		input := plugin.Text{What: t.What, Flags: flags, Held: held, New: []byte(piece)}
		f, err := b.Internal().FilterText(context.Background(), &filtering, &input)
		if err != nil {
			return err
		}
		text.Write(f.Out)
		all := append(append([]byte(nil), held...), piece...)
		held = all[len(all)-f.Held:]
		out.Held = max(out.Held, f.Held)
		return nil
	}
	var err error
	for _, piece := range t.Pieces {
		if err = call(piece, t.Flags); err != nil {
			break
		}
	}
	if err == nil && t.Flags&abi.TextComplete == 0 {
		err = call("", t.Flags|abi.TextComplete)
	}
	out.Text, out.Fuel = text.String(), filtering.Fuel
	for set := filtering.Set; set != 0; set &= set - 1 {
		out.Tags = append(out.Tags, t.Tags[bits.TrailingZeros64(set)])
	}
	return out, err
}

// TestFilter filters each key of texts and compares the result with its value, in each form of the plugin. Each text is
// passed as a whole, in a request and in a response, and as a stream: in pieces of 1, 8 and 64 bytes, and in two pieces
// cut at up to 50 places.
func (s Suite) TestFilter(t *testing.T, settings string, texts map[string]string) {
	t.Helper()
	s.EachForm(t, settings, func(t *testing.T, b *Binding) {
		for text, want := range texts {
			check := func(flags abi.TextFlags, pieces ...string) {
				t.Helper()
				got, err := b.FilterText(FilterText{Flags: flags, Pieces: pieces})
				if err != nil || got.Text != want {
					t.Errorf("%.200q\nfiltered %.300q, %v\nwant     %.300q", pieces, got.Text, err, want)
				}
			}
			check(abi.TextComplete|abi.TextOfRequest, text)
			check(abi.TextComplete, text)
			for size := 1; size <= 64; size *= 8 {
				check(abi.TextStreamed, cutText(text, size)...)
			}
			step := 1 + len(text)/50
			for at := 0; at < len(text); at += step {
				if utf8.RuneStart(text[at]) {
					check(abi.TextStreamed, text[:at], text[at:])
				}
			}
		}
	})
}

// cutText cuts a text between characters into pieces of size bytes, or up to three more.
func cutText(text string, size int) (pieces []string) {
	for len(text) > size {
		n := size
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return append(pieces, text)
}

// BenchmarkFilter measures filter calls on a stream's text, one for each word, which approximates the tokens of models.
func (s Suite) BenchmarkFilter(b *testing.B, settings, text string) {
	s.Use.Settings = settings
	for _, form := range []Form{Native, Module} {
		bound := s.Bind(b, form)
		b.Run(form.String(), func(b *testing.B) {
			pieces := strings.SplitAfter(text, " ")
			filtering := plugin.Filtering{}
			var held []byte
			input := plugin.Text{Flags: abi.TextStreamed}
			b.ReportAllocs()
			next := 0
			for b.Loop() {
				input.Held, input.New = held, append(input.New[:0], pieces[next]...)
				f, err := bound.Internal().FilterText(context.Background(), &filtering, &input)
				if err != nil {
					b.Fatal(err)
				}
				held = append(held, input.New...)
				held = append(held[:0], held[len(held)-f.Held:]...)
				if next++; next == len(pieces) {
					next = 0
				}
			}
			b.ReportMetric(float64(filtering.Fuel)/float64(b.N), "fuel/op")
		})
	}
}
