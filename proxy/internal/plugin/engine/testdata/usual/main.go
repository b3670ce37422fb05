// Guest usual imports the packages that plugins commonly import, and tries to use the machine: arguments, environment,
// files, clock, random numbers, goroutines, and exiting the process.
package main

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"
)

//go:wasmexport arguments
func arguments() uint32 { return uint32(len(os.Args)) }

//go:wasmexport environment
func environment() uint32 { return uint32(len(os.Environ())) }

// closing returns 1 if the host does not allow closing standard input, else 0.
//
//go:wasmexport closing
func closing() uint32 {
	err := os.Stdin.Close()
	var p *fs.PathError
	if errors.As(err, &p) {
		return 1
	}
	return 0
}

//go:wasmexport clock
func clock() uint64 { return uint64(time.Now().UnixNano()) }

//go:wasmexport random
func random() uint64 {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b[:])
}

// sleep returns how long its sleep took by the guest's clock, in milliseconds.
//
//go:wasmexport sleep
func sleep(ms int64) int64 {
	before := time.Now()
	time.Sleep(time.Duration(ms) * time.Millisecond)
	return time.Since(before).Milliseconds()
}

//go:wasmexport exit
func exit(code int32) { os.Exit(int(code)) }

//go:wasmexport crash
func crash() { panic("secret prompt") }

//go:wasmexport deadlock
func deadlock() { select {} }

var ticks int

// leave starts a goroutine that never ends, and returns how often earlier ones have run.
//
//go:wasmexport leave
func leave() uint32 {
	go func() {
		for {
			ticks++
			runtime.Gosched()
		}
	}()
	return uint32(ticks)
}

//go:wasmexport say
func say(n uint32) { fmt.Fprint(os.Stderr, strings.Repeat("x", int(n))) }

// flood writes forever.
//
//go:wasmexport flood
func flood() {
	for {
		os.Stdout.WriteString("line\n")
	}
}

var hold [][]byte

// hoard allocates memory until there is none left.
//
//go:wasmexport hoard
func hoard() {
	for {
		hold = append(hold, make([]byte, 1<<20))
	}
}

//go:wasmexport recurse
func recurse(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return recurse(n-1) + 1
}

//go:wasmexport collect
func collect() { runtime.GC() }

//go:wasmexport spin
func spin() {
	for {
		ticks++
	}
}

func main() {}
