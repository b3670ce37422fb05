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

// connections are those that clients keep between requests.
type connections struct {
	addr string
	mu   sync.Mutex
	idle []*loadtest.Conn
}

func (c *connections) take(fresh bool) (*loadtest.Conn, error) {
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

func (c *connections) keep(conn *loadtest.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, conn)
}

// close closes the connections that are kept, and returns how many they were.
func (c *connections) close() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.idle {
		_ = conn.Close()
	}
	n := len(c.idle)
	c.idle = nil
	return n
}

// visit is one request of a client.
type visit struct {
	run   *Run
	plan  *Plan
	entry *entry
	due   time.Time // when it was to begin
	conn  *loadtest.Conn
	text  strings.Builder
}

// visit plays the client's part of a plan.
func (r *Run) visit(p *Plan, due time.Time) {
	v := &visit{run: r, plan: p, due: due}
	v.entry = r.ledger.begin(p)
	conn, err := r.conns.take(p.Conduct != Polite)
	if err != nil {
		r.ledger.saw(p, seen{err: err})
		return
	}
	v.conn = conn
	keep := false
	s := v.ask(&keep)
	if keep {
		r.conns.keep(conn)
	} else {
		_ = conn.Close()
	}
	r.ledger.saw(p, s)
}

// ask sends the request, and reads the answer as the client does.
func (v *visit) ask(keep *bool) seen {
	p := v.plan
	if p.Conduct == Slow || p.Conduct == Stalled {
		if c, ok := v.conn.Conn.(*net.TCPConn); ok {
			_ = c.SetReadBuffer(4 << 10)
		}
	}
	// No client waits for ever: a gateway that hangs is a promise that is broken.
	_ = v.conn.SetDeadline(time.Now().Add(v.timeout()))
	if err := v.send(); err != nil {
		return seen{err: err}
	}
	switch p.Conduct {
	case HalfClosed:
		if c, ok := v.conn.Conn.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
	case LeavesSent:
		return seen{left: true}
	case LeavesWaiting:
		select {
		case <-v.entry.waiting:
		case <-time.After(v.timeout()):
			return seen{err: errors.New("the request comes to no provider")}
		}
		return seen{left: true}
	}
	resp, err := v.conn.ReadHead()
	if err != nil {
		return seen{err: fmt.Errorf("head of the answer: %w", err)}
	}
	s := v.answer(resp)
	s.status = resp.StatusCode
	*keep = p.Conduct == Polite && !resp.Close && s.err == nil && !s.left
	return s
}

// timeout is more than a response can take.
func (v *visit) timeout() time.Duration {
	return time.Duration(v.plan.parts)*(v.plan.gap+time.Duration(2+v.plan.size/slowBytes)*slowly) + firstByte + idle + pause + writeTimeout + 3*grace
}

func (v *visit) send() error {
	p := v.plan
	r := &loadtest.Request{Key: clientKey, ID: p.id(), Close: p.Conduct == Closing}
	prompt := p.id()
	if p.Model == modelDemo {
		prompt = "Hello"
	}
	r.Body = fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"stream":%t}`, p.Model, prompt, p.Stream)
	switch p.Asks {
	case models:
		r.Path, r.Body = "/v1/models", ""
	case noKey:
		r.Key = ""
	case wrongKey:
		r.Key = "sk-soak-wrong-0123456789"
	case unknownModel:
		r.Body = `{"model":"nobody","messages":[{"role":"user","content":"x"}]}`
	case brokenJSON:
		r.Body = `{"model":"openai","messages":[{"role":"user","content":"x"}]`
	case noHTTP:
		_, err := io.WriteString(v.conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		return err
	}
	return v.conn.Send(r)
}

// answer reads an answer as far as the client does.
func (v *visit) answer(resp *http.Response) seen {
	if resp.StatusCode == 200 && v.plan.Stream && v.plan.Asks == completion {
		return v.stream(resp)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return seen{err: err}
	}
	if resp.StatusCode != 200 {
		code, err := errorOf(body)
		return seen{code: code, err: err}
	}
	if v.plan.Asks != completion {
		return seen{complete: json.Valid(body)}
	}
	var whole struct {
		Choices []struct {
			Message struct{ Content string }
			Finish  string `json:"finish_reason"`
		}
	}
	if err := json.Unmarshal(body, &whole); err != nil {
		return seen{err: err}
	}
	if len(whole.Choices) != 1 || whole.Choices[0].Finish != "stop" {
		return seen{err: fmt.Errorf("not one whole choice: %.300q", body)}
	}
	v.first()
	return seen{complete: true, err: v.compare(whole.Choices[0].Message.Content)}
}

// errorOf is the code of an error body. Where it has none, the type.
func errorOf(body []byte) (string, error) {
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
		return "", fmt.Errorf("not an error: %.300q", body)
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

// stream reads a stream to its end, or to where the client leaves.
func (v *visit) stream(resp *http.Response) (s seen) {
	p := v.plan
	events := loadtest.NewEvents(v.pace(resp.Body))
	id, finished, parts := "", false, 0
	for {
		data, err := events.Next()
		if err != nil {
			return seen{err: fmt.Errorf("after %d parts: %w", parts, err)}
		}
		if string(data) == "[DONE]" {
			if !finished {
				return seen{err: errors.New("[DONE] without a finish reason")}
			}
			break
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return seen{err: err}
		}
		if c.Error != nil {
			if finished {
				return seen{err: errors.New("an error after the finish reason")}
			}
			s.code = c.Error.Code
			break
		}
		if id == "" {
			id = c.ID
		}
		if c.ID != id || len(c.Choices) != 1 || finished {
			return seen{err: fmt.Errorf("a chunk that does not belong here: %q", data)}
		}
		finished = c.Choices[0].Finish != nil
		text := c.Choices[0].Delta.Content
		if text == "" {
			continue
		}
		if parts == 0 {
			v.first()
		}
		parts++
		v.text.WriteString(text)
		switch p.Conduct {
		case LeavesReading:
			if parts >= p.leavesAt() {
				return seen{left: true, err: v.prefix()}
			}
		case ResetsReading:
			if parts >= p.leavesAt() {
				if c, ok := v.conn.Conn.(*net.TCPConn); ok {
					_ = c.SetLinger(0)
				}
				return seen{left: true, err: v.prefix()}
			}
		case Stalled:
			return v.stall()
		}
	}
	// Behind the last event there is the end of the body and nothing else.
	if _, err := events.Next(); err != io.EOF {
		return seen{err: fmt.Errorf("after the end: %w", err)}
	}
	if s.code != "" {
		return seen{code: s.code, err: v.prefix()}
	}
	return seen{complete: true, err: v.compare(v.text.String())}
}

// stall reads nothing until the gateway has cut the connection, which the log says.
func (v *visit) stall() seen {
	select {
	case <-v.entry.logged:
	case <-time.After(v.timeout()):
		return seen{err: errors.New("a client that does not read is not cut")}
	}
	// Nothing is kept for it: the connection was reset, with what was on its way.
	rest, err := io.ReadAll(v.conn)
	if !errors.Is(err, syscall.ECONNRESET) {
		return seen{err: fmt.Errorf("a client that did not read could read %d bytes when it had been cut, and then %v", len(rest), err)}
	}
	return seen{left: true, complete: bytes.Contains(rest, []byte("[DONE]"))}
}

// first notes how long it took to the first text, where the provider did not make anybody wait.
func (v *visit) first() {
	if p := v.plan; p.Fault == None && p.Conduct <= HalfClosed && p.gap == 0 {
		v.run.latency.Add(time.Since(v.due))
	}
}

// compare compares a whole text with the planned one.
func (v *visit) compare(text string) error {
	want := v.plan.Text()
	if v.plan.Model == modelDemo {
		want = v.run.demo(text)
	}
	if text != want {
		return fmt.Errorf("the text is %.200q, and not %.200q", text, want)
	}
	return nil
}

// prefix compares the beginning of a text.
func (v *visit) prefix() error {
	if text := v.text.String(); !strings.HasPrefix(v.plan.Text(), text) {
		return fmt.Errorf("the text is %.200q, and not the beginning of %.200q", text, v.plan.Text())
	}
	return nil
}

// A slow client takes slowBytes at a time, and slowly.
const (
	slowBytes = 256
	slowly    = 10 * time.Millisecond
)

// pace slows the reading of a slow client down.
func (v *visit) pace(r io.Reader) io.Reader {
	if v.plan.Conduct != Slow {
		return r
	}
	return slowReader{r}
}

type slowReader struct{ r io.Reader }

func (s slowReader) Read(p []byte) (int, error) {
	<-time.After(slowly)
	return s.r.Read(p[:min(len(p), slowBytes)])
}
