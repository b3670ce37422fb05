package response_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// covers: S19
func TestUsageArithmetic(t *testing.T) {
	type counts map[abi.UsageKind]int64
	cases := []struct {
		name   string
		counts counts
		want   string
	}{
		{"details included in the totals", counts{abi.UsagePrompt: 20, abi.UsageCompletion: 10, abi.UsageCached: 5, abi.UsageCacheWrite: 2, abi.UsageReasoning: 4, abi.UsageAudioIn: 1, abi.UsageAudioOut: 3},
			`{"prompt_tokens":20,"completion_tokens":10,"total_tokens":30,"prompt_tokens_details":{"cached_tokens":5,"cache_creation_tokens":2,"audio_tokens":1},"completion_tokens_details":{"reasoning_tokens":4,"audio_tokens":3}}`},
		{"cache tokens besides the prompt", counts{abi.UsagePrompt: 3, abi.UsageCachedBeside: 1111, abi.UsageCacheWriteBeside: 418, abi.UsageCompletion: 7}, // covers: R16
			`{"prompt_tokens":1532,"completion_tokens":7,"total_tokens":1539,"prompt_tokens_details":{"cached_tokens":1111,"cache_creation_tokens":418}}`},
		// covers: G30
		{"tokens besides prompt and completion", counts{abi.UsagePrompt: 11, abi.UsagePromptBeside: 4, abi.UsageCompletion: 2, abi.UsageReasoningBeside: 24},
			`{"prompt_tokens":15,"completion_tokens":26,"total_tokens":41,"completion_tokens_details":{"reasoning_tokens":24}}`},
		{"zeroes are kept", counts{abi.UsagePrompt: 0, abi.UsageCompletion: 0, abi.UsageCached: 0, abi.UsageReasoning: 0},
			`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}`},
		{"missing counts are omitted", counts{abi.UsagePrompt: 1, abi.UsageCompletion: 1}, // covers: T19
			`{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}`},
		{"invalid counts", counts{abi.UsagePrompt: -1, abi.UsageCompletion: 1 << 62},
			`{"prompt_tokens":77,"completion_tokens":3,"total_tokens":80,"estimated":true}`},
		{"no counts", counts{}, `{"prompt_tokens":77,"completion_tokens":3,"total_tokens":80,"estimated":true}`},
		{"only the prompt", counts{abi.UsagePrompt: 5}, `{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8,"estimated":true}`},
		{"only the completion", counts{abi.UsageCompletion: 5}, `{"prompt_tokens":77,"completion_tokens":5,"total_tokens":82,"estimated":true}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, stream := range []bool{true, false} {
				r := newRun(t, response.Options{Stream: stream, IncludeUsage: true, PromptEstimate: 77})
				r.apply(func(b *response.Batch) {
					b.Text(0, 0, []byte("0123456789")) // ten bytes are estimated as three tokens
					for kind, n := range c.counts {
						b.Usage(kind, n)
					}
					stop(b)
				})
				got := string(r.w.Output())
				if !stream {
					got = r.response()
				}
				if !strings.Contains(got, `"usage":`+c.want+"}") {
					t.Errorf("no usage %s in %s", c.want, got)
				}
				u := r.w.Usage()
				if u.Total != u.Prompt+u.Completion || u.Estimated != strings.Contains(c.want, "estimated") || !u.Complete {
					t.Errorf("usage %+v", u)
				}
			}
		})
	}
}

// covers: R15
func TestLastUsageCountWins(t *testing.T) {
	r := newRun(t, response.Options{})
	r.apply(func(b *response.Batch) { b.Usage(abi.UsagePrompt, 12); b.Usage(abi.UsageCompletion, 1) })
	r.apply(text("a"))
	r.apply(func(b *response.Batch) { b.Usage(abi.UsageCompletion, 9); b.Usage(abi.UsageCompletion, 8) })
	r.apply(stop)
	if u := r.w.Usage(); u.Prompt != 12 || u.Completion != 8 || u.Total != 20 {
		t.Errorf("usage %+v", u)
	}
}

// TestUsageInStreamOnlyIfAsked checks that a stream ends with the usage only for clients that ask for it.
func TestUsageInStreamOnlyIfAsked(t *testing.T) {
	for _, asked := range []bool{true, false} {
		r := newRun(t, response.Options{Stream: true, IncludeUsage: asked})
		r.apply(text("a"))
		r.apply(stop)
		if got := string(r.w.Output()); strings.Contains(got, `"usage":{`) != asked || !strings.HasSuffix(got, "data: [DONE]\n\n") {
			t.Errorf("asked %v: got %s", asked, got)
		}
	}
}

// TestAccountedUsage checks that what has arrived of an incomplete response is charged for, although the provider's
// count is older.
func TestAccountedUsage(t *testing.T) {
	for _, tt := range []struct {
		name                string
		end                 func(r *run)
		reported, accounted int64
	}{
		{"complete", func(r *run) { r.apply(stop) }, 1, 1},
		{"broken off", func(r *run) { r.w.Fail(response.Truncated()) }, 1, 10},
		{"rejected by a filter after its end", func(r *run) { r.apply(stop); r.w.Revoke(apierror.Fail(abi.FailDenied, "", "", "")) }, 1, 1},
	} {
		r := newRun(t, response.Options{})
		r.apply(func(b *response.Batch) {
			b.Usage(abi.UsagePrompt, 5)
			b.Usage(abi.UsageCompletion, 1)
			b.Text(0, 0, []byte(strings.Repeat("word", 10)))
		})
		tt.end(r)
		u, a := r.w.Usage(), r.w.Accounted()
		if u.Completion != tt.reported || a.Completion != tt.accounted || a.Total != 5+tt.accounted || a.Estimated != (tt.reported != tt.accounted) {
			t.Errorf("%s: reported %+v, accounted %+v", tt.name, u, a)
		}
	}
}
