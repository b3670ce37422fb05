// Command mistaken is a provider plugin that makes the mistake that the prompt names.
package main

import (
	"errors"
	"os"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.Register[mistaken]() }

func main() {}

type mistaken struct{ missing *mistaken }

var (
	stack [][]byte
	names map[string]int
)

func (m *mistaken) Configure(options json.Value) error {
	switch string(options.Get("mistake").Text()) {
	case "refuse":
		return sdk.Refuse("mistake", "Not this one.")
	case "error":
		return errors.New("no such mistake")
	case "panic":
		panic("in Configure")
	case "status":
		m.missing.missing = m
	}
	return nil
}

//go:noinline
func spin(n int) int {
	for i := 0; ; i++ {
		n ^= i
	}
}

func recurse(n int) int { return recurse(n+1) + 1 }

func (m *mistaken) Request(r *provider.Request) error {
	switch string(r.Get("/messages/0/content").Text()) {
	case "panic":
		panic("as the prompt says")
	case "index":
		_ = r.Body()[len(r.Body()):][:len(r.Body())+1]
	case "nil map":
		names["x"] = 1
	case "nil pointer":
		m.missing.missing = m
	case "loop":
		for {
		}
	case "loop in a function":
		r.SetInt("/n", int64(spin(1)))
	case "recursion":
		r.SetInt("/n", int64(recurse(1)))
	case "memory":
		for {
			stack = append(stack, make([]byte, 1<<20))
		}
	case "exit":
		os.Exit(3)
	case "deadlock":
		<-make(chan int)
	case "sleep":
		time.Sleep(time.Hour)
		r.SetPath("/say")
	case "print":
		println("printed")
		os.Stdout.WriteString("written\n")
		r.SetPath("/say")
	case "log":
		sdk.Log(abi.LogWarn, "logged")
		r.SetPath("/say")
	case "error":
		return errors.New("it went wrong")
	case "refuse":
		return sdk.Refuse("messages", "Not this prompt.")
	case "nothing":
	case "path":
		r.SetPath("/other")
	case "second path":
		r.SetPath("/say")
		r.SetPath("/other")
	case "path without a slash":
		r.SetPath("say")
	case "path with a space":
		r.SetPath("/s ay")
	case "header":
		r.SetPath("/say")
		r.SetHeader("x-other", "1")
	case "reserved header":
		r.SetPath("/say")
		r.SetHeader("Authorization", "Bearer x")
	case "header with a line feed":
		r.SetPath("/say")
		r.SetHeader("x-own", "a\nb")
	case "request and response":
		r.SetPath("/say")
		r.Text(0, abi.EncodingUTF8, []byte("Hi"))
		r.Done()
	case "edits and writes":
		r.SetPath("/say")
		r.SetText("/model", []byte("m"))
		r.Write([]byte("{}"))
	case "body is not JSON":
		r.SetPath("/say")
		r.Write([]byte(`{"a":`))
	case "sets in nothing":
		r.SetPath("/say")
		r.SetText("/a/b", []byte("x"))
	case "unknown framing":
		r.SetPath("/say")
		r.Expect(99, 0, nil)
	case "alias":
		r.SetPath("/say")
		r.ToolAlias(nil, []byte("x"))
	default:
		r.SetPath("/say")
	}
	return nil
}

func (m *mistaken) Response(a *provider.Answer, status int, body []byte) error {
	text := func() { a.Text(0, abi.EncodingUTF8, []byte("Hi")) }
	finish := func() { a.Finish(0, abi.FinishStop, nil); a.Done() }
	switch name, _, _ := strings.Cut(string(json.Value(body).Get("mistake").Text()), ";"); name {
	case "no done":
		text()
	case "no finish":
		text()
		a.Done()
	case "text after done":
		text()
		finish()
		text()
	case "usage after done":
		text()
		finish()
		a.Usage(abi.UsagePrompt, 5)
	case "text after finish":
		a.Finish(0, abi.FinishStop, nil)
		text()
		a.Done()
	case "nothing":
		finish()
	case "status ignored":
		text()
		finish()
	case "arguments without a call":
		text()
		a.ToolArguments(0, 1, abi.EncodingUTF8, []byte("{}"))
		finish()
	case "arguments are not JSON":
		a.ToolCall(0, 1, []byte("c"), []byte("f"))
		a.ToolArguments(0, 1, abi.EncodingUTF8, []byte("{"))
		finish()
	case "reserved member":
		text()
		a.Extra(abi.ScopeAnswer, 0, 0, "choices", []byte("[]"))
		finish()
	case "large state":
		a.SetState(make([]byte, abi.MaxState+1))
		text()
		finish()
	case "not UTF-8":
		a.Text(0, abi.EncodingUTF8, []byte("\xff"))
		finish()
	case "unescaped":
		a.Text(0, abi.EncodingEscaped, []byte(`a"b`))
		finish()
	case "unknown encoding":
		a.Text(0, 7, []byte("Hi"))
		text()
		finish()
	case "unknown reason":
		text()
		a.Finish(0, 99, nil)
		a.Done()
	case "negative usage":
		text()
		a.Usage(abi.UsagePrompt, -1)
		finish()
	case "choice out of range":
		a.Text(-1, abi.EncodingUTF8, []byte("Hi"))
		finish()
	case "line feed in the ID":
		a.Start([]byte("a\nb"), nil, "")
		finish()
	case "endless output":
		for {
			a.Text(0, abi.EncodingUTF8, make([]byte, 1<<10))
		}
	case "not JSON":
		return &json.Error{Offset: 1}
	}
	return nil
}

func (m *mistaken) Event(a *provider.Answer, e *provider.Event) error { return errors.New("an event") }
