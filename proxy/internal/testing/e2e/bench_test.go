package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// BenchmarkNonStreaming and BenchmarkStream compare the gateway with a bare fasthttp reverse proxy, which neither
// authenticates clients nor reads bodies. Client and provider run in the same process, so only the ratio of the two
// differences to "direct" is meaningful. cpu-µs/op is the CPU time of the process, which is more reliable than wall
// time on a shared machine.
func BenchmarkNonStreaming(b *testing.B) {
	openai := `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("An answer of some words. ", 20) + `","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":120,"total_tokens":170}}`
	anthropic := `{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[{"type":"text","text":"` +
		strings.Repeat("An answer of some words. ", 20) + `"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":50,"output_tokens":120}}`
	for _, size := range []int{200, 100_000} {
		prompt := strings.Repeat("A question of some words. ", size/26)
		benchmarkPaths(b, fmt.Sprintf("prompt of %d B", size), prompt, false, fixedResponse("application/json", openai), fixedResponse("application/json", anthropic))
	}
}

// BenchmarkStream sends streams of 200 events as fast as possible.
func BenchmarkStream(b *testing.B) {
	const events = 200
	var openai, anthropic strings.Builder
	anthropic.WriteString("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"claude\",\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n")
	for range events {
		openai.WriteString("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"gpt\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" some words\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n")
		anthropic.WriteString("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" some words\"}}\n\n")
	}
	openai.WriteString("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"gpt\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	anthropic.WriteString("event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":400}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	benchmarkPaths(b, "200 events", "A question.", true, fixedResponse("text/event-stream", openai.String()), fixedResponse("text/event-stream", anthropic.String()))
}

// benchmarkPaths measures sequential requests to the provider directly, through the bare proxy and through the gateway.
func benchmarkPaths(b *testing.B, name, prompt string, stream bool, openai, anthropic fasthttp.RequestHandler) {
	ou, au := serveBench(b, openai), serveBench(b, anthropic)
	bare := serveBench(b, bareProxy(ou))
	g := proxytest.Start(b, configuration("http://"+ou, "http://"+au))
	for _, c := range []struct{ name, addr, model string }{
		{"direct", ou, "gpt"}, {"bare", bare, "gpt"}, {"openai", g.Addr, "gpt"}, {"anthropic", g.Addr, "claude"},
	} {
		b.Run(name+"/"+c.name, func(b *testing.B) {
			body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"stream":%v}`, c.model, prompt, stream)
			request := []byte(fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", proxytest.Key, len(body), body))
			conn, err := net.Dial("tcp", c.addr)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			r := bufio.NewReaderSize(conn, 64<<10)
			var response fasthttp.Response
			do := func() {
				if _, err := conn.Write(request); err != nil {
					b.Fatal(err)
				}
				if err := response.Read(r); err != nil {
					b.Fatal(err)
				}
				if response.StatusCode() != 200 {
					b.Fatalf("%d %s", response.StatusCode(), response.Body())
				}
			}
			do()
			if stream && !bytes.Contains(response.Body(), []byte("data: ")) {
				b.Fatalf("the response is not a stream: %s", response.Body())
			}
			b.ResetTimer()
			began := cpu()
			for b.Loop() {
				do()
			}
			b.ReportMetric(float64((cpu()-began).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

// cpu returns the CPU time of the process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchRequest returns a function that sends a chat completions request over one connection and reads the response.
func benchRequest(b *testing.B, addr, body string) func() {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	r, response := bufio.NewReaderSize(conn, 64<<10), new(fasthttp.Response)
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", proxytest.Key, len(body), body)
	user, n := bytes.Index(request, []byte(benchUser)), 0
	return func() {
		if user >= 0 {
			n++
			copy(request[user:], fmt.Appendf(nil, "user-%06d", n%100_000))
		}
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		if err := response.Read(r); err != nil || response.StatusCode() != 200 {
			b.Fatalf("%v: %d %s", err, response.StatusCode(), response.Body())
		}
	}
}

// benchUser is replaced in requests by one user after the other.
const benchUser = "user-000000"

// alternate calls each function in turn, as often as perRound says, and returns the CPU time of the process for each
// function and round. A further round, the first, is the warm-up.
func alternate(rounds, perRound int, do []func()) [][]float64 {
	took := make([][]float64, len(do))
	for round := range rounds + 1 {
		for n := range do {
			i := (n + round) % len(do)
			began := cpu()
			for range perRound {
				do[i]()
			}
			if round > 0 {
				took[i] = append(took[i], float64(cpu()-began))
			}
		}
	}
	return took
}

// medianRatio returns the median over all rounds of the ratio of two CPU times.
func medianRatio(took, baseline []float64) float64 {
	ratios := make([]float64, len(took))
	for i := range took {
		ratios[i] = took[i] / baseline[i]
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// fixedResponse responds to every request with the same body.
func fixedResponse(contentType, body string) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType(contentType)
		ctx.SetBodyString(body)
	}
}

func bareProxy(addr string) fasthttp.RequestHandler {
	client := &fasthttp.HostClient{Addr: addr, StreamResponseBody: true}
	return func(ctx *fasthttp.RequestCtx) {
		response := fasthttp.AcquireResponse()
		if err := client.Do(&ctx.Request, response); err != nil {
			ctx.Error(err.Error(), 502)
			return
		}
		response.Header.CopyTo(&ctx.Response.Header)
		ctx.SetBodyStream(releasingBody{response}, response.Header.ContentLength())
	}
}

// releasingBody is the body of a response. Close releases the response.
type releasingBody struct{ r *fasthttp.Response }

func (c releasingBody) Read(p []byte) (int, error) { return c.r.BodyStream().Read(p) }

func (c releasingBody) Close() error {
	err := c.r.CloseBodyStream()
	fasthttp.ReleaseResponse(c.r)
	return err
}

var _ io.ReadCloser = releasingBody{}

func serveBench(b *testing.B, h fasthttp.RequestHandler) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := &fasthttp.Server{Handler: h, MaxRequestBodySize: 8 << 20}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	b.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			b.Error(err)
		}
		<-done
	})
	return ln.Addr().String()
}
