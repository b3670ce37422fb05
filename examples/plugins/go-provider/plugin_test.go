package main

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{Package: ".", Dir: "../testdata/provider", Use: plugintest.Use{Paths: []string{"/say"}}}

// TestVectors runs the vectors that all example providers share, as Go code and as WebAssembly.
func TestVectors(t *testing.T) { suite.Test(t) }

// BenchmarkVectors measures the fuel of a request and of an event.
func BenchmarkVectors(b *testing.B) { suite.Benchmark(b) }
