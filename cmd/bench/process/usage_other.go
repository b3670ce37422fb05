//go:build !linux

package process

import "errors"

var errSystem = errors.New("the benchmark reads process accounts of Linux and runs only there")

// Usage reads what the process has used.
func (p *Process) Usage() (Usage, error) { return Usage{}, errSystem }

// RSS returns the resident memory of the process in bytes.
func (p *Process) RSS() (int64, error) { return 0, errSystem }

// Descriptors raises the limit of open files to its maximum and returns it.
func Descriptors() (int, error) { return 0, errSystem }
