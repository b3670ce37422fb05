//go:build wasip1

// Package main is a Go guest that misbehaves on demand. The first word of an event's data selects how; other events are
// echoed.
package main

import (
	"bytes"
	"time"
	"unsafe"
)

func main() {}

//go:wasmimport sluice text
func text(choice, encoding int32, p unsafe.Pointer, n int32)

var (
	input = make([]byte, 64<<10)
	sink  []byte
	keep  [][]byte
	seen  = map[string]int{}
)

//go:wasmexport sluice_abi_v1
func version() int32 { return 0 }

//go:wasmexport sluice_buffer
func buffer(size int32) unsafe.Pointer {
	if int(size) > len(input) {
		input = make([]byte, size)
	}
	return unsafe.Pointer(unsafe.SliceData(input))
}

//go:wasmexport sluice_configure
func configure(_, _ int32) int32 { return 0 }

//go:wasmexport provider_request
func request(_, _ int32) int32 { return 1 }

//go:wasmexport provider_event
func event(_, _, name, length int32) int32 {
	data := input[name : name+length]
	command, argument, _ := bytes.Cut(data, []byte(" "))
	switch string(command) {
	case "panic":
		panic("panic with " + string(argument))
	case "index":
		sink = input[len(argument):][:len(input)+1]
	case "nil":
		var m map[string]int
		m[string(argument)] = 1
	case "complain":
		println("first", len(argument))
		println("cannot read", string(argument), 3)
		return 7
	case "mumble":
		println("not the end of")
		print("a line")
		return 7
	case "sleep":
		time.Sleep(time.Hour)
	case "deadlock":
		<-make(chan int)
	case "grow":
		for {
			keep = append(keep, make([]byte, 1<<20))
		}
	case "recurse":
		sink = recurse(data)
	case "goroutine":
		go func() {
			for {
				seen["goroutine"]++
				time.Sleep(time.Second)
			}
		}()
	case "allocate":
		// As a general JSON package would: maps, small objects, garbage.
		for i, w := range bytes.Fields(argument) {
			words := map[string][]byte{string(w): append([]byte(nil), w...)}
			for k := range words {
				sink = append(sink[:0:0], k...)
			}
			if i == 1<<20 {
				break
			}
		}
	}
	text(0, 0, unsafe.Pointer(unsafe.SliceData(data)), int32(len(data)))
	return 0
}

func recurse(p []byte) []byte {
	if len(p) == 0 {
		return p
	}
	q := recurse(append(p, p[0]))
	return q[:len(q):len(q)]
}
