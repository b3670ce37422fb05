package main

import (
	"testing"

	"github.com/sluice-gateway/sluice/sdk/plugintest"
)

var suite = plugintest.Suite{Package: "."}

func TestVectors(t *testing.T) { suite.Test(t) }

func BenchmarkVectors(b *testing.B) { suite.Benchmark(b) }
