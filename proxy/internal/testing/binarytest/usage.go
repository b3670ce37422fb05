package binarytest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is the resource usage of a process.
type Usage struct {
	RSS         int64         // resident memory in bytes
	Descriptors int           // open descriptors
	CPU         time.Duration // user and system time since the start
}

// clockTick is the unit of CPU times in /proc. It is the same on all Linux platforms of Go.
const clockTick = time.Second / 100

// ReadUsage reads the resource usage of a process from /proc, so it only works on Linux.
func ReadUsage(pid int) (u Usage, err error) {
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
	// The second field, the program's name in parentheses, may contain spaces.
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

// pollInterval is the interval at which Await checks its condition.
const pollInterval = 20 * time.Millisecond

// Await polls a condition that has no event to wait for, such as the usage of another process. It returns false if the
// condition is still false after EventTimeout.
func Await(condition func() bool) bool {
	t := time.NewTicker(pollInterval)
	defer t.Stop()
	timeout := time.NewTimer(EventTimeout)
	defer timeout.Stop()
	for !condition() {
		select {
		case <-t.C:
		case <-timeout.C:
			return condition()
		}
	}
	return true
}
