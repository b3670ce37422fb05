# `make run` serves gateway.toml and `make test` runs the tests; both build what they need.
#
# Plugins are built for WebAssembly first, and embedded into the binary.

GO       ?= go
CONFIG   ?= gateway.toml
FUZZTIME ?= 10s
MUTATE   ?= .
BENCH    ?= .
BENCHFLAGS ?=
BASE     ?=
SOAK     ?= 2m
SOAKFLAGS ?=
HELD     ?= 10000
# The race detector needs a C compiler.
RACE     ?= $(if $(shell command -v $$($(GO) env CC)),-race)
# Packages that start no goroutine: the race detector finds nothing in them, and would make them five times as slow. Of
# the tests of proxy/plugindev this is true of some.
SEQUENTIAL := proxy/plugindev/project|proxy/internal/plugin/fuel|proxy/internal/plugin/goopt|sdk/internal/kit
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.version=$(VERSION)
# The Go that go.mod asks for. From 1.21 on, go downloads it by itself where it may.
NEEDS_GO := $(shell sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' go.mod)
# A first build takes minutes, so each step names the packages that it compiles. All steps for this machine compile
# them in the same way, without cgo, so that none is compiled twice.
BUILD     = CGO_ENABLED=0 $(GO) build -v -trimpath
RELEASE  := bin/release
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
# Archives of one commit are the same whenever they are made, with GNU tar.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
TARFLAGS := $(if $(findstring GNU,$(shell tar --version 2>/dev/null)),--sort=name --owner=0 --group=0 --numeric-owner --mtime=@$(SOURCE_DATE_EPOCH))
IMAGE    = sluice:$(VERSION)
ARCH     = $(shell $(GO) env GOARCH 2>/dev/null)
# The OCI format, the default of podman and buildah, has no health checks.
IMAGEFORMAT = $(if $(filter podman buildah,$(notdir $(IMAGETOOL))),--format docker)
IMAGETOOL = $(firstword $(foreach tool,podman buildah docker,$(if $(shell command -v $(tool) 2>/dev/null),$(tool))))

.DEFAULT_GOAL := help
.PHONY: help run build plugins need-go release image generate test test-agents test-collector test-node test-plugins test-net test-redis test-fleet mutate soak held lint bench bench-go fuzz lines check clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/:/' | awk -F: '{printf "  make %-10s%s\n", $$1, $$2}'

run: build ## build everything and serve gateway.toml (CONFIG=file)
	@./bin/sluice serve --config $(CONFIG)

build: plugins ## build bin/sluice with the bundled plugins
	@echo "Compiling bin/sluice …"
	@$(BUILD) -ldflags="$(LDFLAGS)" -o bin/sluice ./cmd/sluice

plugins: need-go ## build the bundled plugins
	@echo "Compiling the plugins to WebAssembly$(if $(wildcard bin/sluice),, (the first build also downloads and compiles the Go modules: a few minutes)) …"
	@GOOS=wasip1 GOARCH=wasm $(GO) build -v -trimpath -buildmode=c-shared -ldflags="-s -w" -o bin/go.wasm ./plugins/all
	@echo "Compiling and running the optimizer of plugins …"
	@$(BUILD) -o bin/wasmopt ./cmd/wasmopt
	@bin/wasmopt $(foreach schema,$(wildcard plugins/*/options.json),-options $(schema:plugins/%/options.json=%)=$(schema)) bin/go.wasm bin/all.wasm
	@gzip -dc plugins/bundle/all.wasm.gz 2>/dev/null | cmp -s - bin/all.wasm || gzip -9nc bin/all.wasm >plugins/bundle/all.wasm.gz
	@find plugins/bundle -name '*.wasm*' ! -name all.wasm.gz -delete

need-go:
	@command -v $(GO) >/dev/null || { echo "Go $(NEEDS_GO) or later is needed, and there is no command $(GO): see https://go.dev/doc/install" >&2; exit 1; }
	@have=$$($(GO) env GOVERSION 2>/dev/null | sed -n 's/.*go\([0-9]*\.[0-9]*\).*/\1/p'); \
	echo "$${have:-0.0} $(NEEDS_GO)" | tr . ' ' | awk '{ exit !($$1 > $$3 || $$1 == $$3 && $$2 >= $$4) }' || { \
		echo "Go $(NEEDS_GO) or later is needed, and $(GO) is $$(GOTOOLCHAIN=local $(GO) version 2>/dev/null | sed 's/^go version go//'): see https://go.dev/doc/install" >&2; exit 1; }

release: plugins ## build archives with checksums in bin/release (PLATFORMS='linux/arm64 …')
	@rm -rf $(RELEASE) && mkdir -p $(RELEASE)
	@set -e; for platform in $(PLATFORMS); do \
		os=$${platform%/*}; arch=$${platform#*/}; name=sluice_$(VERSION)_$${os}_$${arch}; \
		echo "Building $(RELEASE)/$$name.tar.gz …"; \
		mkdir $(RELEASE)/$$name; \
		GOOS=$$os GOARCH=$$arch $(BUILD) -ldflags="$(LDFLAGS)" -o $(RELEASE)/$$name/sluice ./cmd/sluice; \
		cp -R LICENSE README.md CHANGELOG.md SECURITY.md gateway.toml docs examples/deploy $(RELEASE)/$$name; \
		tar -C $(RELEASE) $(TARFLAGS) -cf $(RELEASE)/$$name.tar $$name; gzip -9n $(RELEASE)/$$name.tar; \
		rm -r $(RELEASE)/$$name; \
	done
	@cd $(RELEASE) && if command -v sha256sum >/dev/null; then sha256sum *.tar.gz; else shasum -a 256 *.tar.gz; fi | tee SHA256SUMS

image: plugins ## build a container image with podman, buildah or docker (IMAGE=sluice:tag ARCH=arm64)
	@test -n "$(IMAGETOOL)" || { echo "an image needs podman, buildah or docker" >&2; exit 1; }
	@rm -rf bin/image && mkdir -p bin/image/usr/local/bin bin/image/etc/sluice bin/image/var/cache/sluice bin/image/var/empty bin/image/usr/share/doc/sluice
	@echo "Compiling sluice for linux/$(ARCH) …"
	@GOOS=linux GOARCH=$(ARCH) $(BUILD) -ldflags="$(LDFLAGS)" -o bin/image/usr/local/bin/sluice ./cmd/sluice
	@cp gateway.toml bin/image/etc/sluice/ && cp LICENSE bin/image/usr/share/doc/sluice/
	@if bin/image/usr/local/bin/sluice version >/dev/null 2>&1; then \
		bin/image/usr/local/bin/sluice plugin compile --config gateway.toml --cache bin/image/var/cache/sluice; \
	else \
		echo "This machine cannot run linux/$(ARCH): the image has no compiled plugins, and every start compiles them."; \
	fi
	@chmod -R u=rwX,go=rX bin/image
	@echo "Building the image $(IMAGE) with $(IMAGETOOL) …"
	$(IMAGETOOL) build $(IMAGEFORMAT) --platform linux/$(ARCH) -f Dockerfile -t $(IMAGE) bin/image

generate: ## regenerate the reference pages in docs
	$(GO) generate ./...

test: plugins ## run all tests, concurrent code with the race detector if there is a C compiler
	$(GO) test -timeout 25m ./proxy/plugindev $$($(GO) list ./... | grep -E '/($(SEQUENTIAL))$$')
	$(GO) test $(RACE) -timeout 25m ./proxy/internal/testing/e2e $$($(GO) list ./... | grep -vE '/($(SEQUENTIAL))$$')

test-agents: plugins ## test with go-openai, eino and Google's Go client, which are a module of their own
	cd proxy/internal/testing/agents && $(GO) test ./...

test-collector: plugins ## test with the OTLP receiver of the OpenTelemetry Collector, which is a module of its own
	cd proxy/internal/testing/collector && $(GO) test ./...

test-node: ## test with the official Node clients, Claude Code, Codex, the Gemini CLI and agents in Node, if it is installed
	@if ! command -v node >/dev/null || ! command -v npm >/dev/null; then echo "Node is not installed: skipping its clients"; exit 0; fi; \
	mkdir -p bin/node && cp proxy/internal/testing/e2e/testdata/node/package*.json bin/node/ && npm ci --prefix bin/node --no-audit --no-fund --loglevel error && \
	NODE_CLIENTS="$(CURDIR)/bin/node" $(GO) test -tags node -run '^TestNode' -v ./proxy/internal/testing/e2e && \
	NODE_CLIENTS="$(CURDIR)/bin/node" $(GO) test -run '^TestCommands$$/^(README.md|docs)$$/^(clients|how-do-i).md$$' -v ./proxy/internal/testing/docs

test-plugins: plugins ## write, build and run a plugin in each language whose compiler is installed (Linux; COMPILERS=required)
	@if command -v npm >/dev/null; then \
		mkdir -p bin/asc && cp cmd/sluice/testdata/assemblyscript/package*.json bin/asc/ && npm ci --prefix bin/asc --no-audit --no-fund --loglevel error; \
	fi
	PATH="$(CURDIR)/bin/asc/node_modules/.bin:$$PATH" COMPILERS=$(COMPILERS) $(GO) test -count=1 -v -timeout 20m -tags languages -run '^TestPluginInEachLanguage$$|^TestPluginTestWatch|^TestKit|^TestNative' ./cmd/sluice ./proxy/plugindev/project
	PATH="$(CURDIR)/bin/asc/node_modules/.bin:$$PATH" COMPILERS=$(COMPILERS) $(GO) test -count=1 -v -run '^TestCommands$$/^examples$$/^plugins$$' ./proxy/internal/testing/docs

test-net: ## test with lossy and broken networks (Linux, as root)
	$(GO) test -count=1 -v -parallel 8 -timeout 10m -tags network ./proxy/internal/testing/linktest

test-redis: plugins ## test limits and budgets that gateways share, with redis-server of the system's packages
	REDIS=required $(GO) test $(RACE) -count=1 -timeout 5m ./proxy/internal/spend/redisstore
	REDIS=required $(GO) test -count=1 -timeout 5m -run '^TestGatewaysShare|^TestShareNeedsNoRoundTrip|^TestModesWhileStoreIsDown|^TestGatewayStartsWithoutStore|^TestStoreWithOldData|^TestKilledGatewayShareIsSpent|^TestUnknownOutcomesInSharedBudget|^TestCompanyOfTwoGateways' ./proxy/internal/testing/e2e

test-fleet: plugins ## test rollouts to eight gateways, with docker-registry and minisign of the system's packages
	FLEET=required $(GO) test -count=1 -v -timeout 10m -run '^TestFleet$$|^TestTimeline|^TestMinisign' ./cmd/sluice ./proxy/config/fleet

mutate: ## check that tests notice defects: edit the code in some seventy places, one at a time, and run the tests that must fail (MUTATE=regexp)
	$(GO) test -count=1 -v -timeout 0 -run '^TestMutations$$' ./proxy/internal/testing/mutation -mutate '$(MUTATE)'

soak: ## run under load with faults and reloads, and look for leaks (SOAK=2m SOAKFLAGS='-rate 400 -seed 1')
	$(GO) test -count=1 -v -timeout 0 ./proxy/internal/testing/soaktest -soak $(SOAK) -rate 200 $(SOAKFLAGS)

held: ## hold streams and sockets open and measure memory and CPU time (HELD=10000)
	$(GO) test -count=1 -v -timeout 0 -run '^TestHeld' ./proxy/internal/testing/loadtest -held $(HELD) -large 1000 -silent 20s -phase 5s

lint: ## run gofmt, go vet (gateway and plugins) and staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "not gofmt'd:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags node ./proxy/internal/testing/e2e
	cd proxy/internal/testing/agents && $(GO) vet ./...
	$(GO) vet -tags network ./proxy/internal/testing/linktest
	$(GO) vet -tags languages ./cmd/sluice ./proxy/plugindev/project
	GOOS=wasip1 GOARCH=wasm $(GO) vet ./sdk ./sdk/json ./sdk/provider ./sdk/router ./sdk/filter ./sdk/chat ./plugins/...
	$(GO) tool staticcheck ./...

fuzz: ## run every fuzz target (FUZZTIME=10s)
	@set -e; mkdir -p bin/fuzz; compiled=; \
	git grep '^func Fuzz' -- '*_test.go' ':!:*/testdata/*' | grep -v '{}$$' | sed -E 's|/[^/]*:func (\w+).*| \1|' | sort | while read -r pkg target; do \
		test "$$pkg" = "$$compiled" || $(GO) test -c -fuzz . -o bin/fuzz/test ./$$pkg; compiled=$$pkg; \
		echo "fuzz ./$$pkg $$target"; \
		(cd $$pkg && "$(CURDIR)/bin/fuzz/test" -test.run '^$$' -test.fuzz "^$$target$$" -test.fuzztime $(FUZZTIME) -test.fuzzminimizetime 5x -test.fuzzcachedir "$(CURDIR)/bin/fuzz/corpus/$$pkg"); \
	done

bench: build ## compare CPU time, memory and start-up with a bare reverse proxy, and with the gateway of another commit (BENCHFLAGS='-quick -run unpaced' BASE=v1.2)
	@echo "Compiling the benchmark …"
	@$(BUILD) -ldflags="-X main.version=$(VERSION)" -o bin/bench ./cmd/bench
	@test -z "$(BASE)" || { rm -rf bin/base && mkdir -p bin/base && git archive $(BASE) | tar -x -C bin/base && $(MAKE) -C bin/base build; }
	./bin/bench -o bin/bench.json $(if $(BASE),-base bin/base/bin/sluice) $(BENCHFLAGS)

bench-go: plugins ## run the Go benchmarks (BENCH=regexp)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

lines: ## count the lines of Go that ship
	@git ls-files -z '*.go' ':!:*_test.go' ':!:**/testdata/**' ':!:proxy/internal/testing' ':!:proxy/proxytest' ':!:cmd/bench' ':!:examples' | xargs -0 cat | wc -l

check: lint test ## run linters and tests, as CI does

clean: ## remove built files
	rm -rf bin plugins/bundle/*.wasm plugins/bundle/*.wasm.gz
