// Command guest is a small WebAssembly guest for the tests of package fuel. Its
// exports use the features that real guests use: the heap and its garbage collector,
// maps, growing stacks, strings, closures, panics and bulk memory instructions.
package main

import (
	"sort"
	"strings"
	"unsafe"
)

//go:wasmimport env double
func double(v int64) int64

var buffer [1 << 16]byte

// address returns the address of the input buffer.
//
//go:wasmexport address
func address() uint32 { return uint32(uintptr(unsafe.Pointer(&buffer))) }

// digest hashes n bytes of the buffer, byte by byte.
//
//go:wasmexport digest
func digest(n uint32) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range buffer[:n] {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

// words replaces n bytes of the buffer by a list of the distinct words in them, the
// most frequent first, and returns its length.
//
//go:wasmexport words
func words(n uint32) uint32 {
	count := map[string]int{}
	for _, w := range strings.Fields(string(buffer[:n])) {
		count[strings.ToLower(w)]++
	}
	list := make([]string, 0, len(count))
	for w := range count {
		list = append(list, w)
	}
	sort.Slice(list, func(i, j int) bool {
		if count[list[i]] != count[list[j]] {
			return count[list[i]] > count[list[j]]
		}
		return list[i] < list[j]
	})
	return uint32(copy(buffer[:], strings.Join(list, " ")))
}

// garbage allocates n blocks of 1 KiB, of which it keeps the last 16.
//
//go:wasmexport garbage
func garbage(n uint32) uint32 {
	var kept [16][]byte
	for i := range n {
		b := make([]byte, 1024)
		b[i%1024] = byte(i)
		kept[i%16] = b
	}
	sum := uint32(0)
	for _, b := range kept {
		for _, v := range b {
			sum += uint32(v)
		}
	}
	return sum
}

// recurse calls itself to a depth of n, which makes the guest's own stack grow.
//
//go:wasmexport recurse
func recurse(n uint32) uint32 {
	if n == 0 {
		return 0
	}
	return recurse(n-1) + n
}

// twice calls the host twice.
//
//go:wasmexport twice
func twice(v int64) int64 { return double(v) + double(v+1) }

// crash panics. It recovers from the panic and returns n, unless n is 0.
//
//go:wasmexport crash
func crash(n uint32) (out uint32) {
	if n > 0 {
		defer func() {
			if recover() != nil {
				out = n
			}
		}()
	}
	var list []int
	return uint32(list[n])
}

// spin never returns.
//
//go:wasmexport spin
func spin() {
	for {
	}
}

func main() {}
