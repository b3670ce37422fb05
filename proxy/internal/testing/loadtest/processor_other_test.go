//go:build !linux

package loadtest_test

import "os"

// onOneProcessor starts a process whose Go code runs on one thread at a time, which comes near to having one processor.
func onOneProcessor(start func() error) error {
	if err := os.Setenv("GOMAXPROCS", "1"); err != nil {
		return err
	}
	defer os.Unsetenv("GOMAXPROCS")
	return start()
}
