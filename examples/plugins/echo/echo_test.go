package main

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{Package: ".", Use: plugintest.Use{Paths: []string{"/say"}}}

// TestVectors runs the folders of testdata/vectors through the plugin as Go code and as WebAssembly.
func TestVectors(t *testing.T) { suite.Test(t) }

// BenchmarkVectors says what a request and an event cost.
func BenchmarkVectors(b *testing.B) { suite.Benchmark(b) }
