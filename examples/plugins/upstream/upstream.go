// Package upstream is the API for which the example providers translate: POST /say accepts "turns" instead of
// "messages", and streams the last one back: an event {"text":"…"} for each word, and {"tokens":…} at the end. `sluice
// plugin upstream` serves it.
package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Handler serves the API. Its zero value is ready for use.
type Handler struct{}

// ServeHTTP responds to POST /say with an event for each word.
func (Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/say" {
		http.NotFound(w, r)
		return
	}
	var request struct {
		Turns []struct{ Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Turns) == 0 {
		http.Error(w, "turns are missing, or contain more than text", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	words := strings.SplitAfter(request.Turns[len(request.Turns)-1].Content, " ")
	for _, word := range words {
		piece, err := json.Marshal(map[string]string{"text": word})
		if err != nil {
			return
		}
		fmt.Fprintf(w, "data: %s\n\n", piece)
		if out.Flush() != nil {
			return
		}
	}
	fmt.Fprintf(w, "data: {\"tokens\":%d}\n\n", len(words))
}
