// Package capacity finds how much memory and how many descriptors the machine or container gives the process, and how
// many connections, requests and bytes of bodies fit into that.
//
// It only finds and divides these resources. Package proxy counts what is in use and rejects requests.
//
// Concurrency: everything here is safe for concurrent use.
package capacity

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
)

// Machine is the resources that the process may use.
type Machine struct {
	Memory      int64  // bytes; 0 if unknown
	From        string // where Memory comes from, as text; "" if unknown
	Descriptors int    // limit of open descriptors; 0 if unknown
}

// Detect returns the process's resources. Memory is the lowest of the process's memory limit (GOMEMLIMIT) and the
// limits of its control groups, or else half of the machine's memory, because other processes need some.
func Detect() Machine {
	limit := processLimit.Load()
	if limit == 0 {
		limit = debug.SetMemoryLimit(-1)
	}
	m := memory(os.DirFS("/"), limit)
	m.Descriptors = descriptors()
	return m
}

// Ceilings are the maximums in use at a time.
type Ceilings struct {
	Conns      int   // connections of clients
	Requests   int   // chat completions in flight, streams among them
	BodyMemory int64 // bytes of large requests and of large non-streaming responses
}

// Standard is the maximum number of connections and of requests if neither memory nor descriptors are scarce.
const Standard = 16384

const (
	// base is the memory of the process before the first request: the WebAssembly engine, machine code, some instances.
	base = 128 << 20

	// smallShare is the minimum share of the memory, in eighths, that is available besides base, which is a generous
	// estimate.
	smallShare = 3

	// perConn is the memory of an idle connection: its buffers, its goroutine's stack, TLS.
	perConn = 64 << 10

	// perRequest is the memory of a request in addition to its connection's: the connection to the provider, the state
	// of the response, and bodies that are too small to be counted individually.
	perRequest = 160 << 10

	// bodyFactor is the memory per byte of a body: the body, the provider's request translated from it, and as much
	// garbage that is not collected yet.
	bodyFactor = 4

	// spareDescriptors are for listeners, the log, plugins, configuration files and the runtime.
	spareDescriptors = 64

	// perStream is the number of descriptors of a stream: one to the client and one to the provider.
	perStream = 2

	// minCount and minBodyMemory are the minimums of Ceilings, however little memory there is: with less a gateway is
	// useless.
	minCount      = 16
	minBodyMemory = 1 << 20
)

// Share returns the memory for a use that can do with less than it wants, such as a cache: wanted, but at most a
// sixteenth of all.
func (m Machine) Share(wanted int) int {
	if m.Memory <= 0 {
		return wanted
	}
	return int(min(int64(wanted), m.Memory/16))
}

// Ceilings divides the memory above base. Large bodies get a quarter, or up to half if a body of maxBody bytes needs
// that; connections get two thirds of the rest, and requests one third. BodyMemory may be less than maxBody.
func (m Machine) Ceilings(maxBody int64) Ceilings {
	c := Ceilings{Conns: Standard, Requests: Standard, BodyMemory: math.MaxInt64}
	if m.Memory > 0 {
		free := max(m.Memory-base, m.Memory/8*smallShare)
		bodies := max(free/4, min(maxBody*bodyFactor, free/2))
		c.Conns = int(min(int64(c.Conns), (free-bodies)/3*2/perConn))
		c.Requests = int(min(int64(c.Requests), (free-bodies)/3/perRequest))
		c.BodyMemory = max(bodies/bodyFactor, minBodyMemory)
	}
	if m.Descriptors > 0 {
		c.Conns = min(c.Conns, (m.Descriptors-spareDescriptors)/perStream)
	}
	c.Conns = max(c.Conns, minCount)
	c.Requests = max(min(c.Requests, c.Conns), minCount)
	return c
}

// The memory that the Go runtime does not count: machine code of the plugins, and linear memories of their instances,
// in which a large body takes as much as on the heap.
const (
	uncounted      = 48 << 20
	uncountedShare = 8 // plus one eighth of the process's limit
)

// processLimit is the process's memory limit, from which LimitGo has derived the runtime's; 0 if LimitGo has set none.
var processLimit atomic.Int64

// LimitGo sets the Go runtime's soft memory limit, without which the garbage collector lets the heap grow until the
// kernel kills the process. The process's limit is GOMEMLIMIT, or else nine tenths of its control group's limit; the
// runtime gets what is left of it after the memory that the runtime does not count. LimitGo returns the runtime's
// limit, or false if the process has no limit. Call it once.
func LimitGo() (int64, bool) {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		limit = cgroupLimit(os.DirFS("/")) / 10 * 9
	}
	if limit <= 0 {
		return 0, false
	}
	processLimit.Store(limit)
	limit -= min(limit/2, uncounted+limit/uncountedShare)
	debug.SetMemoryLimit(limit)
	return limit, true
}

// memory returns the memory that the process may use. root is the system's root folder, and own the process's own
// limit.
func memory(root fs.FS, own int64) Machine {
	limit := cgroupLimit(root)
	switch {
	case own != math.MaxInt64 && (limit == 0 || own < limit):
		return Machine{Memory: own, From: "the Go memory limit"}
	case limit != 0:
		return Machine{Memory: limit, From: "the control group"}
	}
	if total := machineMemory(root); total != 0 {
		return Machine{Memory: total / 2, From: "half of the machine's memory"}
	}
	return Machine{}
}

// cgroupLimit returns the lowest memory limit of the process's control group and its parents in bytes, or 0 if there is
// none.
func cgroupLimit(root fs.FS) int64 {
	membership, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	limit := int64(0)
	for line := range strings.Lines(string(membership)) {
		// A line is hierarchy:controllers:path. That of cgroup v2 has no controllers.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		if parts[1] != "" {
			if !strings.Contains(","+parts[1]+",", ",memory,") {
				continue
			}
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		// In a container the path may be the host's. Then only the root of the mount has the file.
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			if n := readNumber(root, path.Join(mount, dir, file)); n > 0 && (limit == 0 || n < limit) {
				limit = n
			}
			if dir == "/" {
				break
			}
		}
	}
	if limit >= math.MaxInt64/2 {
		return 0 // cgroup v1 represents no limit as a huge number
	}
	return limit
}

// readNumber returns the number in a file, or 0 if it cannot be read or has none.
func readNumber(root fs.FS, name string) int64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// machineMemory returns the machine's memory in bytes, or 0 if unknown.
func machineMemory(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil || kib < 0 || kib > math.MaxInt64>>10 {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}
