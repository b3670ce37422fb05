// Guest small is like a carefully written plugin: it imports only unsafe of the standard library, and calls the host once
// for each event.
package main

import "unsafe"

//go:wasmimport test note
func note(p unsafe.Pointer, n uint32) uint32

var buffer [4096]byte

//go:wasmexport buffer
func inputBuffer(n uint32) unsafe.Pointer {
	if n > uint32(len(buffer)) {
		return nil
	}
	return unsafe.Pointer(&buffer)
}

//go:wasmexport empty
func empty() {}

// event finds the first quoted text in its input and passes it to the host.
//
//go:wasmexport event
func event(n uint32) uint32 {
	in := buffer[:n]
	start := -1
	for k, c := range in {
		if c != '"' {
			continue
		}
		if start < 0 {
			start = k + 1
			continue
		}
		return note(unsafe.Pointer(&in[start]), uint32(k-start))
	}
	return 1
}

var kept [][]byte

// remember keeps n bytes, which must be gone after a restore, and returns how many times it has done so.
//
//go:wasmexport remember
func remember(n uint32) uint32 {
	kept = append(kept, make([]byte, n))
	return uint32(len(kept))
}

//go:wasmexport divide
func divide(a, b int32) int32 { return a / b }

//go:wasmexport bounds
func bounds(k uint32) uint32 { return uint32(buffer[k]) }

func main() {}
