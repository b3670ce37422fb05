package upstream_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// fastServer responds to every request with the same bytes, at minimal cost. It finds the end of a request by its
// Content-Length.
type fastServer struct {
	ln       net.Listener
	response []byte
}

func newFastServer(tb testing.TB, response string) *fastServer {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &fastServer{ln, []byte(response)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
	tb.Cleanup(func() {
		ln.Close()
		<-done
	})
	return s
}

func (s *fastServer) serve(c net.Conn) {
	defer c.Close()
	buf := make([]byte, 256<<10)
	for n := 0; ; {
		k, err := c.Read(buf[n:])
		if err != nil {
			return
		}
		n += k
		head := bytes.Index(buf[:n], []byte("\r\n\r\n"))
		if head < 0 {
			continue
		}
		want := 0
		if i := bytes.Index(buf[:head], []byte("Content-Length: ")); i >= 0 {
			for _, d := range buf[i+len("Content-Length: ") : head] {
				if d < '0' || d > '9' {
					break
				}
				want = want*10 + int(d-'0')
			}
		}
		if n < head+4+want {
			continue
		}
		n = 0
		if _, err := c.Write(s.response); err != nil {
			return
		}
	}
}

func fastClient(tb testing.TB, s *fastServer) *upstream.Client {
	tb.Helper()
	c, err := upstream.New(upstream.Config{BaseURL: "http://" + s.ln.Addr().String() + "/v1", Credential: credential.Credential{Header: "Authorization", Prefix: "Bearer ", Secrets: []string{"sk-0123456789"}}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

const smallResponse = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: req_0123456789\r\nDate: Mon, 01 Sep 2025 10:00:00 GMT\r\nServer: x\r\nContent-Length: 11\r\n\r\n{\"ok\":true}"

// BenchmarkNonStreaming measures a non-streaming response on a kept-alive connection, with this package and with
// fasthttp's own client.
func BenchmarkNonStreaming(b *testing.B) {
	for name, size := range map[string]int{"1KB": 1 << 10, "100KB": 100 << 10} {
		body := []byte(strings.Repeat("x", size))
		b.Run("upstream/"+name, func(b *testing.B) {
			c := fastClient(b, newFastServer(b, smallResponse))
			r := &upstream.Request{Method: "POST", Path: "/chat/completions", Body: body, ContentType: "application/json", Accept: "application/json"}
			buf := make([]byte, 0, 1<<10)
			b.ReportAllocs()
			for b.Loop() {
				resp, err := c.Do(context.Background(), r, nil)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := resp.ReadAll(buf, 1<<10); err != nil {
					b.Fatal(err)
				}
				resp.Close()
			}
		})
		b.Run("fasthttp/"+name, func(b *testing.B) {
			s := newFastServer(b, smallResponse)
			c := &fasthttp.HostClient{Addr: s.ln.Addr().String()}
			b.Cleanup(c.CloseIdleConnections)
			req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			b.ReportAllocs()
			for b.Loop() {
				req.Header.SetMethod("POST")
				req.SetRequestURI("http://" + c.Addr + "/v1/chat/completions")
				req.Header.SetContentType("application/json")
				req.Header.Set("Accept", "application/json")
				req.Header.Set("Authorization", "Bearer sk-0123456789")
				req.SetBodyRaw(body)
				if err := c.Do(req, resp); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEvent measures one event of a chunked stream, including the server's write.
func BenchmarkEvent(b *testing.B) {
	more := make(chan struct{})
	chunk := "c8\r\ndata: " + strings.Repeat("x", 192) + "\n\n\r\n"
	s := upstreamtest.New(b, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Loop(upstreamtest.Wait(more), upstreamtest.Write(chunk))})
	c := newClient(b, s, nil)
	resp, err := c.Do(context.Background(), post(""), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Close()
	b.ReportAllocs()
	for b.Loop() {
		more <- struct{}{}
		if p, err := resp.Next(); err != nil || len(p) != 200 {
			b.Fatal(len(p), err)
		}
	}
}

// BenchmarkDrain reads a chunked body of 1 MiB, with chunks of the size of an event, as fast as it can be sent.
func BenchmarkDrain(b *testing.B) {
	chunk := "c8\r\ndata: " + strings.Repeat("x", 192) + "\n\n\r\n"
	response := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 5000) + "0\r\n\r\n"
	c := fastClient(b, newFastServer(b, response))
	b.SetBytes(int64(len(response)))
	b.ReportAllocs()
	for b.Loop() {
		resp, err := c.Do(context.Background(), post("x"), nil)
		if err != nil {
			b.Fatal(err)
		}
		for err == nil {
			_, err = resp.Next()
		}
		if err != io.EOF {
			b.Fatal(err)
		}
		resp.Close()
	}
}

// BenchmarkSigned measures a request with an AWS signature. The difference to BenchmarkNonStreaming is the cost of
// signing.
func BenchmarkSigned(b *testing.B) {
	for name, size := range map[string]int{"1KB": 1 << 10, "100KB": 100 << 10} {
		b.Run(name, func(b *testing.B) {
			c, err := upstream.New(upstream.Config{
				BaseURL:    "http://" + newFastServer(b, smallResponse).ln.Addr().String(),
				Credential: credential.Credential{AWS: &credential.AWS{Region: "eu-central-1", AccessKeyID: suiteID, SecretAccessKey: suiteSecret}},
			})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(c.Close)
			r := &upstream.Request{Method: "POST", Path: "/model/m/converse", Body: []byte(strings.Repeat("x", size)), ContentType: "application/json"}
			buf := make([]byte, 0, 1<<10)
			b.ReportAllocs()
			for b.Loop() {
				resp, err := c.Do(context.Background(), r, nil)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := resp.ReadAll(buf, 1<<10); err != nil {
					b.Fatal(err)
				}
				resp.Close()
			}
		})
	}
}
