// Package capacity finds how much memory and how many descriptors the machine or container gives the process, and how
// many connections, requests and bytes of bodies fit into that.
//
// It owns where these figures come from and the arithmetic on them. Counting what is in use, and rejecting requests, is
// for package proxy.
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

// Machine is what the process may use.
type Machine struct {
	Memory      int64  // bytes; 0 is unknown
	From        string // where Memory comes from, for a person; "" if it is unknown
	Descriptors int    // that may be open at a time; 0 is unknown
}

// Detect reads the process's memory limit (GOMEMLIMIT), those of its control groups, and if there is none, the machine's
// memory, of which it counts half, as other processes need some.
func Detect() Machine {
	limit := processLimit.Load()
	if limit == 0 {
		limit = debug.SetMemoryLimit(-1)
	}
	m := memory(os.DirFS("/"), limit)
	m.Descriptors = descriptors()
	return m
}

// Ceilings are how much may be in use at a time.
type Ceilings struct {
	Conns      int   // connections of clients
	Requests   int   // chat completions in flight, streams among them
	BodyMemory int64 // bytes of large requests and of large non-streaming responses
}

// Standard is the number of connections and requests where neither memory nor descriptors are short.
const Standard = 16384

const (
	// base is what the process takes before the first request: the engine, its machine code, some instances.
	base = 128 << 20

	// smallShare is the share of a small memory that is left after that, in eighths: base is generous.
	smallShare = 3

	// perConn is the memory of a connection that waits for a request: its buffers, its goroutine's stack, TLS.
	perConn = 64 << 10

	// perRequest is what a request needs besides its connection: the connection to the provider, the state of the response,
	// and bodies that are too small to be counted by themselves.
	perRequest = 160 << 10

	// bodyFactor is how much memory a byte of a body takes in all: the body, the provider's request made of it, and as much
	// again that is waiting to be collected.
	bodyFactor = 4

	// spareDescriptors are for listeners, the log, plugins, configuration files and what the runtime needs.
	spareDescriptors = 64

	// perStream descriptors are one to the client and one to the provider.
	perStream = 2

	// least is the minimum of each, however little memory there is, and leastBody that of bodies. With less a gateway is of no
	// use.
	least     = 16
	leastBody = 1 << 20
)

// Share is how much memory something may take that could do with less: what it wants, but no more than a sixteenth of all.
func (m Machine) Share(wanted int) int {
	if m.Memory <= 0 {
		return wanted
	}
	return int(min(int64(wanted), m.Memory/16))
}

// Ceilings divides the memory above base: a quarter for large bodies, or up to half where that is not enough for one of maxBody
// bytes; and the rest, two to one, for connections and requests. BodyMemory may be less than maxBody.
func (m Machine) Ceilings(maxBody int64) Ceilings {
	c := Ceilings{Conns: Standard, Requests: Standard, BodyMemory: math.MaxInt64}
	if m.Memory > 0 {
		free := max(m.Memory-base, m.Memory/8*smallShare)
		bodies := max(free/4, min(maxBody*bodyFactor, free/2))
		c.Conns = int(min(int64(c.Conns), (free-bodies)/3*2/perConn))
		c.Requests = int(min(int64(c.Requests), (free-bodies)/3/perRequest))
		c.BodyMemory = max(bodies/bodyFactor, leastBody)
	}
	if m.Descriptors > 0 {
		c.Conns = min(c.Conns, (m.Descriptors-spareDescriptors)/perStream)
	}
	c.Conns = max(c.Conns, least)
	c.Requests = max(min(c.Requests, c.Conns), least)
	return c
}

// The memory that the runtime does not count: the machine code of the plugins, and the memories of their instances, of which a
// large body takes as much as it takes on the heap.
const (
	uncounted      = 48 << 20
	uncountedShare = 8 // one eighth of the process's memory besides
)

// processLimit is the process's memory limit, of which LimitGo has left the runtime a part; 0: LimitGo has set nothing.
var processLimit atomic.Int64

// LimitGo limits the memory of the process, by GOMEMLIMIT or else nine tenths of its control group's limit: the runtime's soft limit
// becomes what is left after the memory that the runtime does not count. Without a limit the garbage collector lets the heap grow
// until the kernel ends the process. It returns the runtime's limit, and false if the process has none. It is called once.
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

// memory reads the limits from a file system. own is the runtime's limit.
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

// cgroupLimit is the least of the memory limits of the process's control group and its parents, in bytes; 0: none.
func cgroupLimit(root fs.FS) int64 {
	membership, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	limit := int64(0)
	for line := range strings.Lines(string(membership)) {
		// hierarchy:controllers:path, of which version 2 has one with no controllers.
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
		// Within a container the path may be the host's: then only the mount's own file is there.
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
		return 0 // version 1 of control groups has no limit as a huge one
	}
	return limit
}

// readNumber reads a file that holds a number; 0 if it does not.
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

// machineMemory is the machine's memory in bytes; 0: unknown.
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
