# `make run` serves gateway.toml and `make test` runs the tests; both build what they need.
#
# Plugins are built for WebAssembly first, and embedded into the binary.

GO       ?= go
CONFIG   ?= gateway.toml
FUZZTIME ?= 10s
BENCH    ?= .
BENCHFLAGS ?=
SOAK     ?= 2m
SOAKFLAGS ?=
HELD     ?= 10000
# The race detector needs a C compiler.
RACE     ?= $(if $(shell command -v $$($(GO) env CC)),-race)
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

.DEFAULT_GOAL := help
.PHONY: help run build plugins generate test test-node test-net soak held lint bench bench-go fuzz check clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/:/' | awk -F: '{printf "  make %-10s%s\n", $$1, $$2}'

run: build ## build everything and serve gateway.toml (CONFIG=file)
	./bin/sluice serve --config $(CONFIG)

build: plugins ## build bin/sluice with the bundled plugins
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags="-s -w -X main.version=$(VERSION)" -o bin/sluice ./cmd/sluice

plugins: ## build the bundled plugins
	GOOS=wasip1 GOARCH=wasm $(GO) build -trimpath -buildmode=c-shared -ldflags="-s -w" -o bin/go.wasm ./plugins/all
	$(GO) run -trimpath ./cmd/wasmopt bin/go.wasm bin/all.wasm
	@gzip -dc plugins/bundle/all.wasm.gz 2>/dev/null | cmp -s - bin/all.wasm || gzip -9nc bin/all.wasm >plugins/bundle/all.wasm.gz
	@find plugins/bundle -name '*.wasm*' ! -name all.wasm.gz -delete

generate: ## regenerate the reference pages in docs
	$(GO) generate ./...

test: plugins ## run all tests, with the race detector if there is a C compiler
	$(GO) test $(RACE) -timeout 15m ./...

test-node: ## test with the official Node client and the AI SDK, if Node is installed
	@if ! command -v node >/dev/null || ! command -v npm >/dev/null; then echo "Node is not installed: skipping its clients"; exit 0; fi; \
	mkdir -p bin/node && cp proxy/internal/testing/e2e/testdata/node/package*.json bin/node/ && npm ci --prefix bin/node --no-audit --no-fund --loglevel error && \
	NODE_CLIENTS="$(CURDIR)/bin/node" $(GO) test -tags node -run TestNodeClients -v ./proxy/internal/testing/e2e

test-net: ## test with lossy and broken networks (Linux, as root)
	$(GO) test -count=1 -v -parallel 8 -timeout 10m -tags network ./proxy/internal/testing/linktest

soak: ## run under load with faults and reloads, and look for leaks (SOAK=2m SOAKFLAGS='-rate 400 -seed 1')
	$(GO) test -count=1 -v -timeout 0 ./proxy/internal/testing/soaktest -soak $(SOAK) -rate 200 $(SOAKFLAGS)

held: ## hold streams open and measure memory and CPU time (HELD=10000)
	$(GO) test -count=1 -v -timeout 0 -run TestHeldStreams ./proxy/internal/testing/loadtest -held $(HELD) -large 1000 -silent 20s -phase 5s

lint: ## run gofmt, go vet (gateway and plugins) and staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "not gofmt'd:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags node ./proxy/internal/testing/e2e
	$(GO) vet -tags network ./proxy/internal/testing/linktest
	GOOS=wasip1 GOARCH=wasm $(GO) vet ./sdk ./sdk/json ./sdk/provider ./sdk/router ./plugins/...
	$(GO) tool staticcheck ./...

fuzz: ## run every fuzz target (FUZZTIME=10s)
	@set -e; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "fuzz $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x $$pkg; \
		done; \
	done

bench: build ## compare CPU time, memory and start-up with a bare reverse proxy (BENCHFLAGS='-quick -run unpaced')
	$(GO) build -trimpath -ldflags="-X main.version=$(VERSION)" -o bin/bench ./cmd/bench
	./bin/bench -o bin/bench.json $(BENCHFLAGS)

bench-go: plugins ## run the Go benchmarks (BENCH=regexp)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

check: lint test ## run linters and tests, as CI does

clean: ## remove built files
	rm -rf bin plugins/bundle/*.wasm plugins/bundle/*.wasm.gz
