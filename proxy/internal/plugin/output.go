package plugin

import (
	"bytes"
	"path"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/excerpt"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

const (
	// maxOutputLine is the length at which a line is cut before redaction. Afterwards it is cut to abi.MaxLogLine.
	maxOutputLine = 4 * abi.MaxLogLine

	// maxKeptOutput, in bytes, and maxKeptLines limit the lines that are kept until the call ends and they are logged.
	// The oldest lines are dropped first.
	maxKeptOutput = 16 << 10
	maxKeptLines  = 64

	// The same limits with Options.Dev.
	devOutputLine = maxCredential
	devKeptOutput = 1 << 20
	devKeptLines  = 10_000

	// maxGuestOutput limits the bytes that are read from a guest's output in one call. It is generous, because the line
	// with the reason of a failure comes last.
	maxGuestOutput = 256 << 10
)

// guestOutput collects the lines that a guest writes in one call: to standard output and error, which language runtimes
// write in small pieces, and with the import log.
//
// It also finds the message that explains a failure: a panic with its location, as the runtimes of Go, TinyGo, Rust and
// AssemblyScript write it, or else the last line.
type guestOutput struct {
	keep    bool           // keep lines for the log
	dev     bool           // with the limits of Options.Dev
	lines   [3]partialLine // unfinished lines, by descriptor
	kept    []keptLine
	text    []byte // the text of the kept lines, concatenated
	dropped int    // lines that did not fit into the limits

	logged  []byte // the last line that the guest logged as a warning or an error
	last    []byte // the last line of standard error that is not empty
	panic   []byte // the line of the last panic
	place   string // location of the panic
	frame   string // function of a stack trace whose file is on the next line
	seeking seeking
}

// keptLine is a line for the log.
type keptLine struct {
	level abi.LogLevel
	end   int // end of its text in guestOutput.text, and start of the next line's
}

type partialLine struct {
	text []byte
	any  bool // something was written since the last newline
}

// seeking is what to look for in the lines after a panic.
type seeking uint8

const (
	seekNothing seeking = iota
	seekFrame           // Go: the first function outside of the runtime, and its file
	seekMessage         // Rust: the message, on the line after the location
)

func (o *guestOutput) reset(keep bool) {
	o.keep = keep
	for i := range o.lines {
		o.lines[i] = partialLine{text: o.lines[i].text[:0]}
	}
	o.kept, o.text, o.dropped = o.kept[:0], o.text[:0], 0
	o.logged, o.last, o.panic = o.logged[:0], o.last[:0], o.panic[:0]
	o.place, o.frame, o.seeking = "", "", seekNothing
}

// write adds bytes that the guest has written to a descriptor, 1 or 2.
func (o *guestOutput) write(fd int32, p []byte) {
	l := &o.lines[fd]
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		limit := maxOutputLine
		if o.dev {
			limit = devOutputLine
		}
		l.text = append(l.text, line[:min(len(line), limit-len(l.text))]...)
		l.any = true
		if ended {
			o.endLine(fd)
		}
		p = rest
	}
}

// finish ends lines that have no newline yet.
func (o *guestOutput) finish() {
	for fd := range o.lines {
		if o.lines[fd].any {
			o.endLine(int32(fd))
		}
	}
}

func (o *guestOutput) endLine(fd int32) {
	l := &o.lines[fd]
	level := abi.LogInfo
	if fd == 2 {
		level = abi.LogError
	}
	o.add(level, l.text)
	if fd == 2 {
		o.search(l.text)
	}
	l.text, l.any = l.text[:0], false
}

// add keeps a copy of a line for the log.
func (o *guestOutput) add(level abi.LogLevel, line []byte) {
	if !o.keep {
		return
	}
	bytes, lines := maxKeptOutput, maxKeptLines
	if o.dev {
		bytes, lines = devKeptOutput, devKeptLines
	}
	if len(o.text)+len(line) > bytes || len(o.kept) == lines {
		half := len(o.kept) / 2
		from := 0
		if half > 0 {
			from = o.kept[half-1].end
		}
		o.text = append(o.text[:0], o.text[from:]...)
		o.kept = append(o.kept[:0], o.kept[half:]...)
		for i := range o.kept {
			o.kept[i].end -= from
		}
		o.dropped += half
	}
	o.text = append(o.text, line...)
	o.kept = append(o.kept, keptLine{level, len(o.text)})
}

// search looks for a panic and its location in a line of standard error.
func (o *guestOutput) search(line []byte) {
	text := bytes.TrimSpace(line)
	if len(text) == 0 {
		return
	}
	o.last = append(o.last[:0], text...)
	const rust = " panicked at "
	at := bytes.Index(text, []byte(rust))
	switch {
	case bytes.HasPrefix(text, []byte("panic: ")), bytes.HasPrefix(text, []byte("fatal error: ")):
		o.panic = append(o.panic[:0], text...)
		o.place, o.frame, o.seeking = "", "", seekFrame
	case bytes.HasPrefix(text, []byte("thread ")) && at > 0:
		o.panic, o.frame = append(o.panic[:0], "panic"...), ""
		place := string(text[at+len(rust):])
		// Before Rust 1.73 the message is on the same line: 'message', src/lib.rs:10:5
		if end := strings.LastIndex(place, "', "); place[0] == '\'' && end > 0 {
			o.panic = append(append(o.panic, ": "...), place[1:end]...)
			o.place, o.seeking = place[end+len("', "):], seekNothing
			break
		}
		o.place, o.seeking = strings.TrimSuffix(place, ":"), seekMessage
	case o.seeking == seekMessage:
		o.panic = append(append(append(o.panic[:0], "panic"...), ": "...), text...)
		o.seeking = seekNothing
	case o.seeking == seekFrame && o.frame != "":
		file, _, _ := strings.Cut(string(text), " ")
		o.place = o.frame + " (" + path.Base(file) + ")"
		o.seeking = seekNothing
	case o.seeking == seekFrame && line[0] != '\t' && text[len(text)-1] == ')' && !bytes.HasPrefix(text, []byte("runtime.")) && !bytes.HasPrefix(text, []byte("panic(")):
		name := text[:bytes.LastIndexByte(text, '(')]
		o.frame = string(name[bytes.LastIndexByte(name, '/')+1:])
	}
}

// message returns the guest's own explanation of a failure: a panic, a logged warning or error, or the last line of
// standard error.
func (o *guestOutput) message() string {
	switch {
	case len(o.panic) > 0 && o.place != "":
		return string(o.panic[:min(len(o.panic), abi.MaxLogLine)]) + " at " + o.place
	case len(o.panic) > 0:
		return string(o.panic)
	case len(o.logged) > 0:
		return string(o.logged)
	}
	return string(o.last)
}

// guestMessage returns the guest's own explanation of a failure of this call, made safe for the log by quote.
func (c *call) guestMessage() string {
	c.out.finish()
	return c.quote([]byte(c.out.message()))
}

// quote makes a text from the guest safe for the log: a single line, without configured credentials, and without
// passages of the call's input.
func (c *call) quote(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	if c.binding != nil {
		text = c.redact(text)
	}
	e := excerpt.New(text)
	if c.export != exportConfigure { // settings come from the operator
		e.Cut(c.first)
		e.Cut(c.second)
	}
	if c.attempt != nil && c.attempt.Request.Doc != nil {
		clientapi.EachText(c.attempt.Request.Doc, e.Cut)
	}
	return e.String()
}

// logOutput logs the lines that the guest has written or logged in the call. The lines of a failed call are not
// rate-limited, because they explain the failure.
func (c *call) logOutput(failed bool) {
	if !c.out.keep {
		return
	}
	c.out.finish()
	if len(c.out.kept) == 0 {
		return
	}
	name := ""
	if c.binding != nil {
		name = c.binding.name
	}
	c.plugin.log.dropped.Add(int64(c.out.dropped))
	limit := abi.MaxLogLine
	if c.out.dev {
		limit = devOutputLine
	}
	from, now := 0, time.Now()
	for _, line := range c.out.kept {
		text := c.out.text[from:line.end]
		from = line.end
		if c.binding != nil {
			text = c.sanitize(text, limit)
		}
		c.plugin.log.write(now, name, line.level, text[:min(len(text), limit)], failed)
	}
	c.out.kept, c.out.text, c.out.dropped = c.out.kept[:0], c.out.text[:0], 0
}

// logStack logs the guest's stack of a trap with Options.Dev, one line for each function, the innermost first. It
// returns e.
func (p *Plugin) logStack(e *CallError) *CallError {
	if !p.host.options.Dev || p.host.options.PluginLog == nil {
		return e
	}
	frame := 0
	for line := range strings.Lines(e.Stack()) {
		if function, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "\t"); ok {
			p.host.options.PluginLog.Error("plugin stack", "plugin", p.name, "call", e.Call, "frame", frame, "function", strings.TrimPrefix(function, "."))
			frame++
		}
	}
	return e
}

// receiveOutput implements engine.Options.Output.
func receiveOutput(i *engine.Instance, fd int32, p []byte) {
	if in, ok := i.User().(*instance); ok {
		in.call.out.write(fd, p)
	}
}
