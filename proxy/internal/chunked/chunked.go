// Package chunked writes HTTP/1.1 responses in the chunked transfer coding, to connections hijacked from fasthttp. The
// response to a turn, a request that arrived as a message, has neither a head nor a coding: the turn writes its events.
//
// It owns the coding and its buffers. Callers decide what to write and when.
//
// Concurrency: a Writer belongs to one goroutine.
package chunked

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/buffers"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
)

// MaxOverhead is an upper bound of the bytes that the coding adds to a chunk.
const MaxOverhead = 32

// lastChunk ends a body.
var lastChunk = []byte("0\r\n\r\n")

// Append appends data as one chunk. Without data it appends nothing, because an empty chunk would end the body.
func Append[T ~string | ~[]byte](dst []byte, data T) []byte {
	if len(data) == 0 {
		return dst
	}
	dst = append(strconv.AppendInt(dst, int64(len(data)), 16), "\r\n"...)
	return append(append(dst, data...), "\r\n"...)
}

// Writer writes a response. Each write is one chunk and one system call; the first also sends the head.
type Writer struct {
	conn    *downstream.Conn
	buffers *buffers.Pool
	head    []byte // from buffers; nil once it is sent
	close   bool   // close the connection after the response
	n       int64  // bytes of the body written
}

// Start begins a response with a copy of head, which is complete. close means that the connection is closed after the
// response.
func (w *Writer) Start(conn *downstream.Conn, pool *buffers.Pool, head []byte, close bool) {
	*w = Writer{conn: conn, buffers: pool, head: append(pool.Get(len(head)), head...), close: close}
}

// Started reports whether Start has been called.
func (w *Writer) Started() bool { return w.conn != nil }

// HeadSent reports whether the head has been sent.
func (w *Writer) HeadSent() bool { return w.head == nil }

// Written returns how many bytes of the body have been written, without what the coding adds.
func (w *Writer) Written() int64 { return w.n }

// Write sends data as one chunk, after the head if that has not been sent. Without data it sends the head alone.
func (w *Writer) Write(data []byte) error {
	if turn := w.conn.Turn(); turn != nil {
		return w.writeEvents(turn, data)
	}
	out := w.head
	w.head = nil
	if out == nil {
		out = w.buffers.Get(len(data) + MaxOverhead)
	}
	out = Append(out, data)
	_, err := w.conn.Write(out)
	w.buffers.Put(out)
	if err == nil {
		w.n += int64(len(data))
	}
	return err
}

func (w *Writer) writeEvents(turn downstream.Turn, events []byte) error {
	w.buffers.Put(w.head)
	w.head = nil
	if len(events) == 0 {
		return nil
	}
	w.n += int64(len(events))
	return turn.WriteEvents(events)
}

// End ends the body, and reports whether the connection may be reused.
func (w *Writer) End() (keepAlive bool, err error) {
	if w.conn.Turn() != nil {
		return false, nil
	}
	_, err = w.conn.Write(lastChunk)
	return !w.close, err
}
