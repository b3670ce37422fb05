package journal

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// ratiosFile is the name of the file with the largest ratios: a JSON object by model.
const ratiosFile = "tokens-per-byte.json"

// ratios are the largest numbers of tokens for each byte of a prompt's text, by model.
type ratios struct {
	mu      sync.Mutex
	largest map[string]float64
	writing sync.Mutex // held while the file is written
}

// readRatios reads the file. Without it, or if it is malformed, the ratios begin anew.
func readRatios(dir string) map[string]float64 {
	largest := make(map[string]float64)
	text, err := os.ReadFile(filepath.Join(dir, ratiosFile))
	if err != nil || json.Unmarshal(text, &largest) != nil || largest == nil {
		return make(map[string]float64)
	}
	return largest
}

// NoteTokensPerByte notes how many tokens a provider has counted for each byte of a prompt's text. The largest ratio of
// each model is kept across restarts, rounded up to hundredths so that it seldom changes.
func (j *Journal) NoteTokensPerByte(model string, ratio float64) {
	ratio = math.Ceil(ratio*100) / 100
	r := &j.ratios
	r.mu.Lock()
	defer r.mu.Unlock()
	if ratio > r.largest[model] {
		r.largest[model] = ratio
		j.folding.Go(j.writeRatios)
	}
}

func (j *Journal) writeRatios() {
	r := &j.ratios
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	text, err := json.Marshal(r.largest)
	r.mu.Unlock()
	if err == nil {
		err = writeWhole(filepath.Join(j.dir, ratiosFile), func(f *os.File) error { _, err := f.Write(text); return err })
	}
	if err != nil {
		j.o.Log.Error("journal: largest tokens per byte not written", "error", err)
	}
}

// writeRatios writes a line for each model below a table.
func (u *Usage) writeRatios(w io.Writer) error {
	for _, model := range slices.Sorted(maps.Keys(u.TokensPerByte)) {
		if _, err := fmt.Fprintf(w, "most tokens_per_byte of %q: %.2f\n", model, u.TokensPerByte[model]); err != nil {
			return err
		}
	}
	return nil
}
