package soaktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/loadtest"
)

// connections is the pool of client connections.
type connections struct {
	addr string
	mu   sync.Mutex
	idle []*loadtest.Conn
}

// get returns an idle connection, or a new one if there is none or fresh is true.
func (c *connections) get(fresh bool) (*loadtest.Conn, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 && !fresh {
		conn := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return conn, nil
	}
	c.mu.Unlock()
	return loadtest.Dial(c.addr)
}

func (c *connections) put(conn *loadtest.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, conn)
}

// close closes the idle connections.
func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.idle {
		_ = conn.Close()
	}
	c.idle = nil
}

// clientRequest is one request of a client.
type clientRequest struct {
	run   *Run
	plan  *Plan
	entry *entry
	due   time.Time // when it should be sent
	conn  *loadtest.Conn
	text  strings.Builder
}

// runClient is the client's part of a plan.
func (r *Run) runClient(p *Plan, due time.Time) {
	cr := &clientRequest{run: r, plan: p, due: due}
	cr.entry = r.ledger.add(p)
	conn, err := r.conns.get(p.Behaviour != Polite)
	if err != nil {
		r.ledger.recordClient(p, clientResult{err: err})
		return
	}
	cr.conn = conn
	keep := false
	s := cr.do(&keep)
	if keep {
		r.conns.put(conn)
	} else {
		_ = conn.Close()
	}
	r.ledger.recordClient(p, s)
}

// do sends the request and reads the response as the plan says. It sets keep if the connection can be reused.
func (cr *clientRequest) do(keep *bool) clientResult {
	p := cr.plan
	if p.Behaviour == Slow || p.Behaviour == Stalled {
		if c, ok := cr.conn.Conn.(*net.TCPConn); ok {
			_ = c.SetReadBuffer(4 << 10)
		}
	}
	// A gateway that hangs is a violation, so clients have a timeout.
	_ = cr.conn.SetDeadline(time.Now().Add(cr.timeout()))
	if err := cr.send(); err != nil {
		return clientResult{err: err}
	}
	switch p.Behaviour {
	case HalfClosed:
		if c, ok := cr.conn.Conn.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
	case LeavesSent:
		return clientResult{left: true}
	case LeavesWaiting:
		select {
		case <-cr.entry.waiting:
		case <-time.After(cr.timeout()):
			return clientResult{err: errors.New("the request did not reach a provider")}
		}
		return clientResult{left: true}
	}
	resp, err := cr.conn.ReadHead()
	if err != nil {
		return clientResult{err: fmt.Errorf("read the response head: %w", err)}
	}
	s := cr.readResponse(resp)
	s.status = resp.StatusCode
	*keep = p.Behaviour == Polite && !resp.Close && s.err == nil && !s.left
	return s
}

// timeout returns more time than any response may take.
func (cr *clientRequest) timeout() time.Duration {
	return time.Duration(cr.plan.parts)*(cr.plan.gap+time.Duration(2+cr.plan.size/slowBytes)*slowInterval) + firstByteTimeout + idleTimeout + pause + writeTimeout + 3*tolerance
}

func (cr *clientRequest) send() error {
	p := cr.plan
	r := &loadtest.Request{Key: clientKey, ID: p.id(), Close: p.Behaviour == Closing}
	prompt := p.id()
	if p.Model == modelDemo {
		prompt = "Hello"
	}
	r.Body = fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"stream":%t}`, p.Model, prompt, p.Stream)
	switch p.Kind {
	case models:
		r.Path, r.Body = "/v1/models", ""
	case noKey:
		r.Key = ""
	case wrongKey:
		r.Key = "sk-soak-wrong-0123456789"
	case unknownModel:
		r.Body = `{"model":"nobody","messages":[{"role":"user","content":"x"}]}`
	case invalidJSON:
		r.Body = `{"model":"openai","messages":[{"role":"user","content":"x"}]`
	case notHTTP:
		_, err := io.WriteString(cr.conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		return err
	}
	return cr.conn.Send(r)
}

// readResponse reads the body of a response as the plan says.
func (cr *clientRequest) readResponse(resp *http.Response) clientResult {
	if resp.StatusCode == 200 && cr.plan.Stream && cr.plan.Kind == completion {
		return cr.readStream(resp)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return clientResult{err: err}
	}
	if resp.StatusCode != 200 {
		code, err := errorCode(body)
		return clientResult{code: code, err: err}
	}
	if cr.plan.Kind != completion {
		return clientResult{complete: json.Valid(body)}
	}
	var response struct {
		Choices []struct {
			Message struct{ Content string }
			Finish  string `json:"finish_reason"`
		}
	}
	if err := json.Unmarshal(body, &response); err != nil {
		return clientResult{err: err}
	}
	if len(response.Choices) != 1 || response.Choices[0].Finish != "stop" {
		return clientResult{err: fmt.Errorf("want one choice with finish reason stop: %.300q", body)}
	}
	cr.recordFirstText()
	return clientResult{complete: true, err: cr.checkText(response.Choices[0].Message.Content)}
}

// errorCode returns the code in an error response, or "" if it is null.
func errorCode(body []byte) (string, error) {
	var e struct {
		Error struct {
			Message, Type string
			Code          *string
		}
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return "", err
	}
	if e.Error.Message == "" || e.Error.Type == "" {
		return "", fmt.Errorf("not an error response: %.300q", body)
	}
	if e.Error.Code == nil {
		return "", nil
	}
	return *e.Error.Code, nil
}

// chunk is an event of a stream.
type chunk struct {
	ID      string
	Choices []struct {
		Delta  struct{ Content, Role string }
		Finish *string `json:"finish_reason"`
	}
	Error *struct{ Code string }
}

// readStream reads a stream to its end, or until the client disconnects or stalls.
func (cr *clientRequest) readStream(resp *http.Response) (s clientResult) {
	p := cr.plan
	events := loadtest.NewEvents(cr.slowDown(resp.Body))
	id, finished, parts := "", false, 0
	for {
		data, err := events.Next()
		if err != nil {
			return clientResult{err: fmt.Errorf("after %d parts: %w", parts, err)}
		}
		if string(data) == "[DONE]" {
			if !finished {
				return clientResult{err: errors.New("[DONE] without a finish reason")}
			}
			break
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return clientResult{err: err}
		}
		if c.Error != nil {
			if finished {
				return clientResult{err: errors.New("an error after the finish reason")}
			}
			s.code = c.Error.Code
			break
		}
		if id == "" {
			id = c.ID
		}
		if c.ID != id || len(c.Choices) != 1 || finished {
			return clientResult{err: fmt.Errorf("unexpected chunk: %q", data)}
		}
		finished = c.Choices[0].Finish != nil
		text := c.Choices[0].Delta.Content
		if text == "" {
			continue
		}
		if parts == 0 {
			cr.recordFirstText()
		}
		parts++
		cr.text.WriteString(text)
		switch p.Behaviour {
		case LeavesReading:
			if parts >= p.partsBeforeLeaving() {
				return clientResult{left: true, err: cr.checkPrefix()}
			}
		case ResetsReading:
			if parts >= p.partsBeforeLeaving() {
				if c, ok := cr.conn.Conn.(*net.TCPConn); ok {
					_ = c.SetLinger(0)
				}
				return clientResult{left: true, err: cr.checkPrefix()}
			}
		case Stalled:
			return cr.stall()
		}
	}
	// After the last event, the body must end.
	if _, err := events.Next(); err != io.EOF {
		return clientResult{err: fmt.Errorf("after the last event: got %w, want EOF", err)}
	}
	if s.code != "" {
		return clientResult{code: s.code, err: cr.checkPrefix()}
	}
	return clientResult{complete: true, err: cr.checkText(cr.text.String())}
}

// stall stops reading until the request is in the access log, when the gateway must have reset the connection.
func (cr *clientRequest) stall() clientResult {
	select {
	case <-cr.entry.logged:
	case <-time.After(cr.timeout()):
		return clientResult{err: errors.New("the gateway did not close the connection of a stalled client")}
	}
	rest, err := io.ReadAll(cr.conn)
	if !errors.Is(err, syscall.ECONNRESET) {
		return clientResult{err: fmt.Errorf("stalled client: got %d bytes and then %v, want a reset connection", len(rest), err)}
	}
	return clientResult{left: true, complete: bytes.Contains(rest, []byte("[DONE]"))}
}

// recordFirstText records the time to the first text, if neither the provider nor the client delays the response.
func (cr *clientRequest) recordFirstText() {
	if p := cr.plan; p.Fault == None && p.Behaviour <= HalfClosed && p.gap == 0 {
		cr.run.latency.Add(time.Since(cr.due))
	}
}

// checkText compares a complete text with the plan.
func (cr *clientRequest) checkText(text string) error {
	want := cr.plan.Text()
	if cr.plan.Model == modelDemo {
		want = cr.run.demoText(text)
	}
	if text != want {
		return fmt.Errorf("got text %.200q, want %.200q", text, want)
	}
	return nil
}

// checkPrefix compares an incomplete text with the plan.
func (cr *clientRequest) checkPrefix() error {
	if text := cr.text.String(); !strings.HasPrefix(cr.plan.Text(), text) {
		return fmt.Errorf("got text %.200q, want the start of %.200q", text, cr.plan.Text())
	}
	return nil
}

// A slow client reads slowBytes every slowInterval.
const (
	slowBytes    = 256
	slowInterval = 10 * time.Millisecond
)

// slowDown wraps the body for a slow client.
func (cr *clientRequest) slowDown(r io.Reader) io.Reader {
	if cr.plan.Behaviour != Slow {
		return r
	}
	return slowReader{r}
}

type slowReader struct{ r io.Reader }

func (s slowReader) Read(p []byte) (int, error) {
	<-time.After(slowInterval)
	return s.r.Read(p[:min(len(p), slowBytes)])
}
