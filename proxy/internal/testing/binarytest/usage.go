package binarytest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process takes of the machine.
type Usage struct {
	RSS         int64         // bytes of memory that is resident
	Descriptors int           // that are open
	CPU         time.Duration // of user and system since the start
}

// clockTick is the unit of the times in /proc on every Linux that Go runs on.
const clockTick = time.Second / 100

// UsageOf reads what a process takes, on Linux.
func UsageOf(pid int) (u Usage, err error) {
	proc := "/proc/" + strconv.Itoa(pid)
	statm, err := os.ReadFile(proc + "/statm")
	if err != nil {
		return u, err
	}
	if f := strings.Fields(string(statm)); len(f) > 1 {
		pages, _ := strconv.ParseInt(f[1], 10, 64)
		u.RSS = pages * int64(os.Getpagesize())
	}
	descriptors, err := os.ReadDir(proc + "/fd")
	if err != nil {
		return u, err
	}
	u.Descriptors = len(descriptors)
	stat, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return u, err
	}
	// The name of the program, in brackets, may hold spaces.
	_, rest, ok := bytes.Cut(stat, []byte(") "))
	f := strings.Fields(string(rest))
	if !ok || len(f) < 13 {
		return u, fmt.Errorf("%s/stat: %q", proc, stat)
	}
	for _, ticks := range f[11:13] {
		n, _ := strconv.ParseInt(ticks, 10, 64)
		u.CPU += time.Duration(n) * clockTick
	}
	return u, nil
}

// looks is how often Await looks.
const looks = 20 * time.Millisecond

// Await looks until something has come true that nothing tells of, such as what another process takes. It is false where
// that has not come true in time.
func Await(is func() bool) bool {
	t := time.NewTicker(looks)
	defer t.Stop()
	over := time.NewTimer(EventTimeout)
	defer over.Stop()
	for !is() {
		select {
		case <-t.C:
		case <-over.C:
			return is()
		}
	}
	return true
}
