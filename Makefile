# Sluice. `make run` serves gateway.toml, `make test` runs the tests; both do all of the set-up.
#
# The plugins are built for WebAssembly first and embedded into the binary. go build relinks only what has changed.

GO       ?= go
CONFIG   ?= gateway.toml
FUZZTIME ?= 10s
BENCH    ?= .
BENCHFLAGS ?=
SOAK     ?= 2m
SOAKFLAGS ?=
HELD     ?= 10000
# The race detector needs a C compiler; without one the tests run without it.
RACE     ?= $(if $(shell command -v $$($(GO) env CC)),-race)
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

.DEFAULT_GOAL := help
.PHONY: help run build plugins test test-node test-net soak held lint bench bench-go fuzz check clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/:/' | awk -F: '{printf "  make %-10s%s\n", $$1, $$2}'

run: build ## build everything and serve gateway.toml (CONFIG=…)
	./bin/sluice serve --config $(CONFIG)

build: plugins ## build bin/sluice with the plugins in it
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags="-s -w -X main.version=$(VERSION)" -o bin/sluice ./cmd/sluice

plugins: ## build the bundled plugins into plugins/bundle
	GOOS=wasip1 GOARCH=wasm $(GO) build -trimpath -buildmode=c-shared -ldflags="-s -w" -o bin/go.wasm ./plugins/all
	$(GO) run -trimpath ./cmd/wasmopt bin/go.wasm bin/all.wasm
	@gzip -dc plugins/bundle/all.wasm.gz 2>/dev/null | cmp -s - bin/all.wasm || gzip -9nc bin/all.wasm >plugins/bundle/all.wasm.gz
	@find plugins/bundle -name '*.wasm*' ! -name all.wasm.gz -delete

test: plugins ## run all tests, under the race detector where there is a C compiler
	$(GO) test $(RACE) -timeout 15m ./...

test-node: ## run the official Node client and the AI SDK against the gateway, where there is Node
	@if ! command -v node >/dev/null || ! command -v npm >/dev/null; then echo "Node is not installed: its clients are not tested"; exit 0; fi; \
	mkdir -p bin/node && cp proxy/internal/testing/e2e/testdata/node/package*.json bin/node/ && npm ci --prefix bin/node --no-audit --no-fund --loglevel error && \
	NODE_CLIENTS="$(CURDIR)/bin/node" $(GO) test -tags node -run TestNodeClients -v ./proxy/internal/testing/e2e

test-net: ## run the tests with networks of their own, where the machine allows that
	$(GO) test -count=1 -v -parallel 8 -timeout 10m -tags network ./proxy/internal/testing/linktest

soak: ## load, faults and reloads for SOAK (2m), and nothing may be left of it (SOAKFLAGS='-rate 400 -seed 1')
	$(GO) test -count=1 -v -timeout 0 ./proxy/internal/testing/soaktest -soak $(SOAK) -rate 200 $(SOAKFLAGS)

held: ## hold HELD (10000) streams open and measure memory and processor time
	$(GO) test -count=1 -v -timeout 0 -run TestHeldStreams ./proxy/internal/testing/loadtest -held $(HELD) -large 1000 -silent 20s -phase 5s

lint: ## check formatting, go vet (host and guests) and staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "not gofmt'd:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags node ./proxy/internal/testing/e2e
	$(GO) vet -tags network ./proxy/internal/testing/linktest
	GOOS=wasip1 GOARCH=wasm $(GO) vet ./sdk ./sdk/json ./sdk/provider ./sdk/router ./plugins/...
	$(GO) tool staticcheck ./...

fuzz: ## run every fuzz target for FUZZTIME (10s)
	@set -e; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "fuzz $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x $$pkg; \
		done; \
	done

bench: build ## compare CPU time, memory and start with a bare reverse proxy (BENCHFLAGS='-quick -run whole')
	$(GO) build -trimpath -ldflags="-X main.version=$(VERSION)" -o bin/bench ./cmd/bench
	./bin/bench -o bin/bench.json $(BENCHFLAGS)

bench-go: plugins ## run the benchmarks of the packages (BENCH=regexp)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

check: lint test ## what CI runs, without the fuzzing

clean: ## remove what was built
	rm -rf bin plugins/bundle/*.wasm plugins/bundle/*.wasm.gz
