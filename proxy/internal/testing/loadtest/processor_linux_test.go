package loadtest_test

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// onOneProcessor starts a process that has only the first of the processors that this one has. It inherits them from the
// thread that starts it.
func onOneProcessor(start func() error) error {
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
