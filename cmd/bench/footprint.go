package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-gateway/sluice/cmd/bench/load"
	"github.com/sluice-gateway/sluice/cmd/bench/provider"
	"github.com/sluice-gateway/sluice/cmd/bench/report"
)

// silentJob is a job of streams that stay silent after their first event.
func silentJob(streams, prompt int) (provider.Scenario, load.Job) {
	return provider.Scenario{Stream: true, Hold: true}, load.Job{Connections: streams, Prompt: prompt}
}

// openStreams opens streams on a new subject, and returns its memory before, and a while after.
func (s *stage) openStreams(sub *subject, sc provider.Scenario, job load.Job, settle time.Duration) (before, after int64, err error) {
	// The first requests make one-time allocations.
	if err := s.startJob(sub, provider.Scenario{}, load.Job{Connections: 4}); err != nil {
		return 0, 0, err
	}
	if err := s.pause(s.warm); err != nil {
		return 0, 0, err
	}
	if _, err := s.finishJob(sub); err != nil {
		return 0, 0, err
	}
	if before, err = sub.process.RSS(); err != nil {
		return 0, 0, err
	}
	if err := s.startJob(sub, sc, job); err != nil {
		return 0, 0, err
	}
	if err := s.awaitOpen(job.Connections); err != nil {
		return 0, 0, err
	}
	if err := s.pause(settle); err != nil {
		return 0, 0, err
	}
	after, err = sub.process.RSS()
	return before, after, err
}

// heldMemory measures the memory of an open stream that is silent.
func (s *stage) heldMemory(name string, prompt int) (rows []report.Row, err error) {
	sc, job := silentJob(s.maxStreams(s.held), prompt)
	return s.streamMemory(report.Row{Case: name, Goal: 0.7}, sc, job, s.settle, 1)
}

// activeMemory measures the memory of an open stream with an event per second, some time after a burst of requests in
// which all streams were opened at once. Each time is measured with new processes.
func activeMemory(s *stage) (rows []report.Row, err error) {
	sc, job := provider.Scenario{Stream: true, Every: time.Second}, load.Job{Connections: s.maxStreams(s.active), Burst: true}
	return s.streamMemory(report.Row{Case: "active streams, prompt of 200 B", Goal: 0.7}, sc, job, s.afterBurst, min(s.rounds, 5))
}

// streamMemory measures the memory of an open stream with new processes.
func (s *stage) streamMemory(row report.Row, sc provider.Scenario, job load.Job, settle time.Duration, rounds int) (rows []report.Row, err error) {
	const dialect = "anthropic"
	names := s.names()
	perStream := make([][]float64, len(names)) // KB
	for range rounds {
		for i, name := range names {
			sub, err := s.start(name, dialect)
			if err != nil {
				return nil, err
			}
			before, after, err := s.openStreams(sub, sc, job, settle)
			if err == nil {
				_, err = s.finishJob(sub)
			}
			if err = errors.Join(err, sub.process.Stop()); err != nil {
				return nil, err
			}
			kb := float64(after-before) / 1e3 / float64(job.Connections)
			perStream[i] = append(perStream[i], kb)
			s.logf("    %-10s %.1f KB/stream", name, kb)
		}
	}
	row.Plugin, row.Unit, row.Note = dialect, "KB RSS/stream", fmt.Sprintf("%d streams", job.Connections)
	row.Compare(figures(names, perStream))
	return []report.Row{row}, nil
}

// maxStreams limits n to what the limit of open files allows, with two connections per stream.
func (s *stage) maxStreams(n int) int { return min(n, (s.files-400)/2) }

// silentStreams measures the CPU time of silent streams.
func silentStreams(s *stage) (rows []report.Row, err error) {
	const dialect = "anthropic"
	streams := s.maxStreams(s.silent)
	names := s.names()
	shares := make([][]float64, len(names))
	for i, name := range names {
		sub, err := s.start(name, dialect)
		if err != nil {
			return nil, err
		}
		share, err := s.silentShare(sub, streams)
		if err = errors.Join(err, sub.process.Stop()); err != nil {
			return nil, err
		}
		shares[i] = []float64{share}
		s.logf("    %-10s %.1f %% of a core", name, share)
	}
	row := report.Row{Case: "silent streams", Plugin: dialect, Unit: "% of a core", Goal: 15, Note: fmt.Sprintf("%d streams for %s", streams, s.silence)}
	row.SetFigures(figures(names, shares))
	return []report.Row{row}, nil
}

// silentShare returns the CPU time that a subject uses for silent streams, in percent of a core.
func (s *stage) silentShare(sub *subject, streams int) (float64, error) {
	sc, job := silentJob(streams, 0)
	if _, _, err := s.openStreams(sub, sc, job, s.settle); err != nil {
		return 0, err
	}
	if err := s.pause(s.settle); err != nil {
		return 0, err
	}
	before, err := sub.process.Usage()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := s.pause(s.silence); err != nil {
		return 0, err
	}
	after, err := sub.process.Usage()
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	_, err = s.finishJob(sub)
	return 100 * float64(after.CPU-before.CPU) / float64(took), err
}

// measureStart measures how long the binary takes to serve the default configuration with all providers configured.
func (s *stage) measureStart(name string, cached bool) (rows []report.Row, err error) {
	var took, cpu []float64
	cache := filepath.Join(s.dir, "start")
	tries := s.rounds
	if cached {
		if _, _, err := s.startOnce(cache); err != nil {
			return nil, err
		}
	} else {
		tries = min(tries, 3)
	}
	for range tries {
		if !cached {
			if err := os.RemoveAll(cache); err != nil {
				return nil, err
			}
		}
		t, c, err := s.startOnce(cache)
		if err != nil {
			return nil, err
		}
		took, cpu = append(took, float64(t.Microseconds())/1e3), append(cpu, float64(c.Microseconds())/1e3)
	}
	row := report.Row{Case: name, Unit: "ms to ready", Goal: 150, Note: fmt.Sprintf("%.0f ms CPU", report.Median(cpu))}
	if !cached {
		row.Goal = 2000
	}
	row.SetFigures(report.Figures{Sluice: took})
	s.logf("    %.0f ms, %s", *row.Sluice, row.Note)
	return []report.Row{row}, nil
}

// startOnce starts and stops the binary, and returns wall and CPU time from the start to its first response.
func (s *stage) startOnce(cache string) (took, cpu time.Duration, err error) {
	openai, anthropic := "http://"+s.providers["openai"].Addr, "http://"+s.providers["anthropic"].Addr
	p, took, err := s.serve(s.sluice, []string{
		"OPENAI_BASE_URL=" + openai + "/v1", "OPENAI_API_KEY=" + provider.Credential,
		"OLLAMA_BASE_URL=" + openai + "/v1",
		"ANTHROPIC_BASE_URL=" + anthropic, "ANTHROPIC_API_KEY=" + provider.Credential,
		"GEMINI_BASE_URL=" + openai, "GEMINI_API_KEY=" + provider.Credential,
		"COHERE_BASE_URL=" + openai, "COHERE_API_KEY=" + provider.Credential,
		"AWS_BEARER_TOKEN_BEDROCK=" + provider.Credential,
	}, "--config", s.gateway, "--cache", cache)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(newRequest("http://" + p.Addr + "/"))
	if err != nil {
		return 0, 0, errors.Join(err, p.Stop())
	}
	took += time.Since(began)
	used, err := p.Usage()
	return took, used.CPU, errors.Join(err, resp.Body.Close(), p.Stop())
}

// newRequest returns a GET request.
func newRequest(url string) *http.Request {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		panic(err) // the URL is valid
	}
	return r
}

// idleMemory measures the memory of an idle gateway with three plugins.
func idleMemory(s *stage) ([]report.Row, error) {
	var idle []float64
	// The first start compiles the plugins and is not measured.
	for range 2 {
		p, err := s.startSluice(sluice)
		if err != nil {
			return nil, err
		}
		err = s.pause(s.settle)
		n, rssErr := p.RSS()
		if err := errors.Join(err, rssErr, p.Stop()); err != nil {
			return nil, err
		}
		s.logf("    %.1f MB", float64(n)/1e6)
		idle = append(idle, float64(n)/1e6)
	}
	row := report.Row{Case: "idle with three plugins", Unit: "MB RSS", Goal: 60, Note: "openai, anthropic and router"}
	row.SetFigures(report.Figures{Sluice: idle[1:]})
	return []report.Row{row}, nil
}

// binarySize measures the gateway's binary, which includes the plugins.
func binarySize(s *stage) ([]report.Row, error) {
	info, err := os.Stat(s.sluice)
	if err != nil {
		return nil, err
	}
	row := report.Row{Case: "binary, stripped", Unit: "MB", Goal: 30}
	row.SetFigures(report.Figures{Sluice: []float64{float64(info.Size()) / 1e6}})
	s.logf("    %.1f MB", *row.Sluice)
	return []report.Row{row}, nil
}
