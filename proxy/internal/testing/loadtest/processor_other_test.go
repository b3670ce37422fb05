//go:build !linux

package loadtest_test

import "os"

// startOnOneCPU starts a process with GOMAXPROCS=1, which is similar to one CPU.
func startOnOneCPU(start func() error) error {
	if err := os.Setenv("GOMAXPROCS", "1"); err != nil {
		return err
	}
	defer os.Unsetenv("GOMAXPROCS")
	return start()
}
