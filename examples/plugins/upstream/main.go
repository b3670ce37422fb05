// Command upstream is the API that the example providers translate: it streams the last message back, word by word.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"strings"
)

func main() {
	log.Print("listening on http://127.0.0.1:9090")
	log.Fatal(http.ListenAndServe("127.0.0.1:9090", echo{}))
}

type echo struct{}

// ServeHTTP responds to POST /say with an event for each word.
func (echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
