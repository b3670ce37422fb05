//go:build !linux

package process

import "errors"

var errUnsupported = errors.New("the benchmark runs only on Linux: it reads the process accounting of /proc")

// Usage returns the process's usage since its start.
func (p *Process) Usage() (Usage, error) { return Usage{}, errUnsupported }

// RSS returns the resident memory of the process in bytes.
func (p *Process) RSS() (int64, error) { return 0, errUnsupported }

// Descriptors raises the limit of open files to its maximum and returns it.
func Descriptors() (int, error) { return 0, errUnsupported }
