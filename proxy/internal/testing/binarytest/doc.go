// Package binarytest runs the gateway as it ships, in a process of its own, for tests of what only a process has: its
// memory, its descriptors and goroutines, its processor time, its signals, its log, its place in a network.
//
// It owns how the binary is built, started, listened to and measured, and nothing of what is tested. What can be shown in
// the process of the test is shown with proxy/proxytest, which is faster and sees more.
//
// Concurrency: a Gateway may be used from any goroutine of its test. Options.Line is called from one goroutine, a line
// after the other.
package binarytest
