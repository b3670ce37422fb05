package capacity

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

const gib = 1 << 30

// root returns a file system from pairs of a file's name and contents.
func root(files ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		fsys[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return fsys
}

func TestMemory(t *testing.T) {
	const meminfo = "MemTotal:       16777216 kB\nMemFree:  1 kB\n"
	for _, c := range []struct {
		name  string
		files []string
		own   int64
		want  int64
		from  string
	}{
		{"unknown", nil, math.MaxInt64, 0, ""},
		{"the machine", []string{"proc/meminfo", meminfo}, math.MaxInt64, 8 * gib, "half of the machine's memory"},
		{"the runtime", []string{"proc/meminfo", meminfo}, gib, gib, "the Go memory limit"},
		{"cgroup v2, no limit", []string{"proc/meminfo", meminfo, "proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "max\n"}, math.MaxInt64, 8 * gib, "half of the machine's memory"},
		{"cgroup v2, own", []string{"proc/meminfo", meminfo, "proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "1073741824\n"}, math.MaxInt64, gib, "the control group"},
		{"cgroup v2, of a parent", []string{"proc/self/cgroup", "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max", "2147483648\n", "sys/fs/cgroup/a/memory.max", "1073741824\n"}, math.MaxInt64, gib, "the control group"},
		{"cgroup v1", []string{"proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1073741824\n"}, math.MaxInt64, gib, "the control group"},
		{"cgroup v1 in a container", []string{"proc/self/cgroup", "4:memory:/docker/0123\n", "sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"}, math.MaxInt64, gib, "the control group"},
		{"cgroup v1, no limit", []string{"proc/self/cgroup", "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}, math.MaxInt64, 0, ""},
		{"the runtime below the group", []string{"proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "2147483648\n"}, gib, gib, "the Go memory limit"},
		{"the group below the runtime", []string{"proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "1073741824\n"}, 2 * gib, gib, "the control group"},
		{"nonsense", []string{"proc/meminfo", "MemTotal: lots\n", "proc/self/cgroup", "what\n0::/\n", "sys/fs/cgroup/memory.max", "-\n"}, math.MaxInt64, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if m := memory(root(c.files...), c.own); m.Memory != c.want || m.From != c.from {
				t.Errorf("got %d from %q, want %d from %q", m.Memory, m.From, c.want, c.from)
			}
		})
	}
}

func TestDerivedLimits(t *testing.T) {
	const body = 32 << 20
	for _, c := range []struct {
		name    string
		machine Machine
		want    Ceilings
	}{
		{"unknown", Machine{}, Ceilings{Standard, Standard, math.MaxInt64}},
		{"plenty", Machine{Memory: 64 * gib, Descriptors: 1 << 20}, Ceilings{Standard, Standard, (64*gib - base) / 16}},
		{"few descriptors", Machine{Memory: 64 * gib, Descriptors: 1024}, Ceilings{480, 480, (64*gib - base) / 16}},
		{"512 MiB", Machine{Memory: 512 << 20, Descriptors: 1 << 20}, Ceilings{2730, 546, body}},
		{"100 MiB: no body of that size", Machine{Memory: 100 << 20, Descriptors: 1 << 20}, Ceilings{200, 40, 4915200}},
		{"hardly anything", Machine{Memory: 1 << 20, Descriptors: 65}, Ceilings{16, 16, 1 << 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.machine.Ceilings(body); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestDetectFindsProcessLimits(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(100 << 20))
	defer processLimit.Store(0)
	for range 2 {
		if m := Detect(); m.Memory != 100<<20 || m.From != "the Go memory limit" {
			t.Errorf("got %d from %q, want %d from the Go memory limit", m.Memory, m.From, 100<<20)
		}
		if processLimit.Load() == 0 {
			if limit, set := LimitGo(); !set || limit != 50<<20 || debug.SetMemoryLimit(-1) != limit {
				t.Errorf("got a runtime limit of %d (set: %t), want %d", limit, set, 50<<20)
			}
		}
	}
}

// TestLimitGo checks the runtime's limit for several limits of the process.
func TestLimitGo(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	defer processLimit.Store(0)
	for process, want := range map[int64]int64{64 << 20: 32 << 20, 256 << 20: 176 << 20, 8 * gib: 7*gib - 48<<20} {
		debug.SetMemoryLimit(process)
		if limit, set := LimitGo(); !set || limit != want {
			t.Errorf("process limit of %d MiB: got a runtime limit of %d MiB, want %d", process>>20, limit>>20, want>>20)
		}
	}
}
