package process

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage returns the process's usage since its start.
//
// CPU time comes from the process's CPU clock, which has nanosecond resolution; /proc has ticks of 10 ms.
func (p *Process) Usage() (Usage, error) {
	const scheduler = 2 // CPUCLOCK_SCHED: CPU time of all threads, including those that have ended
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^p.cmd.Process.Pid)<<3|scheduler, &at); err != nil {
		return Usage{}, fmt.Errorf("CPU time of %s: %w%s", p.Name, err, p.stderr)
	}
	u := Usage{CPU: time.Duration(at.Nano())}
	var err error
	if u.Reads, err = p.figure("io", "syscr:"); err != nil {
		return Usage{}, err
	}
	u.Writes, err = p.figure("io", "syscw:")
	return u, err
}

// RSS returns the resident memory of the process in bytes.
func (p *Process) RSS() (int64, error) {
	n, err := p.figure("status", "VmRSS:")
	return n << 10, err
}

// figure reads a value from a file of the process in /proc.
func (p *Process) figure(file, name string) (int64, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/" + file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > 1 && fields[0] == name {
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: %s has no %s", p.Name, f.Name(), name)
}

// Descriptors raises the limit of open files to its maximum and returns it.
func Descriptors() (int, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, err
	}
	l.Cur = l.Max
	return int(l.Max), unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
}
