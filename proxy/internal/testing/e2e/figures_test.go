package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/figures"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// TestFiguresAgree sends requests with every kind of outcome at the same time, and compares what the access log, recent
// requests, the ledger, the metrics and traces say about them.
func TestFiguresAgree(t *testing.T) {
	t.Parallel()
	const workers, each = 4, 24
	sink := figures.NewTraces()
	collector := httptest.NewServer(sink)
	defer collector.Close()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var request struct {
			Model  string
			Stream bool
			User   string
		}
		_ = json.Unmarshal(body, &request)
		n, _ := strconv.Atoi(request.User)
		usage := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, 10*n+1, n+1, 11*n+2)
		switch {
		case request.Model == "down" || request.Model == "flaky" && n%3 == 0:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, busyError)
		case request.Stream:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"id\":\"r\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"hi\"},\"finish_reason\":null}]}\n\n")
			if n%4 == 1 || n%4 == 2 {
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			fmt.Fprintf(w, "data: {\"id\":\"r\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"id\":\"r\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],%s}\n\ndata: [DONE]\n\n", usage)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"r","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],%s}`, usage)
		}
	}))
	defer up.Close()
	dir := t.TempDir()
	model := func(id, targets string) string {
		return fmt.Sprintf("[[models]]\nid = %q\nretry = { attempts = 1 }\npricing = { input = 1, output = 10 }\nmax_tokens = 4096\ntargets = [%s]\n", id, targets)
	}
	const target = `{ provider = "p", model = %q }`
	g := proxytest.StartWith(t, proxytest.Keys+
		fmt.Sprintf("[store]\njournal = %q\n[telemetry]\notlp = %q\ntraces = { sample = 1, per_second = 100000 }\n", dir, collector.URL)+
		fmt.Sprintf("[providers.p]\nplugin = \"openai\"\nbase_url = %q\nauth = { secret = \"sk-upstream-canary\" }\nbreaker = { enabled = false }\n", up.URL)+
		model("fine", fmt.Sprintf(target, "fine"))+model("down", fmt.Sprintf(target, "down"))+
		model("either", fmt.Sprintf(target, "flaky")+`, { provider = "p", model = "fine", priority = 1 }`),
		func(o *proxy.Options) { o.StateDir = dir })
	admin := g.Admin(t)

	ids := make(chan string, workers*each)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range each {
				n := w*each + i
				id := []string{"fine", "either", "down"}[n%3]
				r := g.Chat(t, fmt.Sprintf(`{"model":%q,"stream":%t,"user":"%d","messages":[{"role":"user","content":"x"}]}`, id, n%2 == 0, n/3))
				ids <- r.RequestID()
			}
		})
	}
	all.Wait()
	close(ids)
	number := func(text any) (n float64) {
		n, _ = strconv.ParseFloat(fmt.Sprint(text), 64)
		return n
	}
	logged, recorded := make(figures.ByModel), make(figures.ByModel)
	add := func(to figures.ByModel, model, code any, prompt, completion, cost, unused any) {
		to.Add(fmt.Sprint(model), code != nil && code != "", int64(number(prompt)), int64(number(completion)), number(cost)+number(unused))
	}
	for id := range ids {
		line := g.Log.Request(t, id)
		add(logged, line["model"], line["code"], line["prompt_tokens"], line["completion_tokens"], line["cost"], line["unused_cost"])
		for _, r := range recordsOf(t, admin, id) {
			add(recorded, r["model"], r["code"], r["prompt_tokens"], r["completion_tokens"], r["cost"], r["unused_cost"])
		}
	}
	if len(logged) != 3 || logged["fine"].Requests != workers*each/3 || logged["fine"].Errors == 0 || logged["either"].Prompt == 0 || logged["down"].Errors != workers*each/3 {
		t.Fatalf("the requests do not have the outcomes that this test is about: %+v", logged)
	}

	_, text := proxytest.Get(t, admin+"/usage?by=model")
	used, err := figures.FromLedger(text)
	if err != nil {
		t.Fatal(err, text)
	}
	timeout := time.After(proxytest.EventTimeout)
	traced, n, changed := sink.Sum()
	for n < workers*each {
		select {
		case <-changed:
			traced, n, changed = sink.Sum()
		case <-timeout:
			t.Fatal("timed out waiting for the traces")
		}
	}
	for source, said := range map[string]figures.ByModel{"recent requests": recorded, "the ledger": used, "the metrics": figures.FromMetrics(proxytest.Scrape(t, admin).Sum, logged), "traces": traced} {
		for _, d := range said.Differences(source, logged) {
			t.Error(d)
		}
	}
}
