package main

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{Package: ".", Dir: "../testdata/provider", Use: plugintest.Use{Paths: []string{"/say"}}}

// TestVectors runs the vectors that all example providers share, on the plugin as native code and as a module.
func TestVectors(t *testing.T) { suite.Test(t) }

// BenchmarkVectors measures the fuel used by a request and an event.
func BenchmarkVectors(b *testing.B) { suite.Benchmark(b) }
