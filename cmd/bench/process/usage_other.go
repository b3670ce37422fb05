//go:build !linux

package process

import "errors"

var errSystem = errors.New("the comparison reads the accounts of Linux, and runs only there")

// Usage reads what the process has used.
func (p *Process) Usage() (Usage, error) { return Usage{}, errSystem }

// RSS is the memory of the process in bytes.
func (p *Process) RSS() (int64, error) { return 0, errSystem }

// Descriptors raises the limit of open files as far as it goes, and returns it.
func Descriptors() (int, error) { return 0, errSystem }
