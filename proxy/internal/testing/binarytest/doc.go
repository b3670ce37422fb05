// Package binarytest runs the sluice binary in a process of its own, for tests that need a process: of memory,
// descriptors, goroutines, CPU time, signals, the log, or networks.
//
// It builds and starts the binary, reads its log, and measures the process. Tests that do not need a process use
// proxy/proxytest, which is faster and gives access to more.
//
// Concurrency: a Gateway may be used from any goroutine of its test. Options.Line is called for one line at a time.
package binarytest
