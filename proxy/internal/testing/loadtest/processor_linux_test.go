package loadtest_test

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// startOnOneCPU starts a process on only the first of this process's CPUs. The process inherits the CPU affinity of the
// thread that starts it.
func startOnOneCPU(start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	for cpu := range 8 * len(all) * 8 {
		if all.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	started := start()
	if err := unix.SchedSetaffinity(0, &all); err != nil {
		return err
	}
	return started
}
