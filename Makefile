# Greenroom. `make help` lists the targets.
# Tools are pinned here, and nowhere else; they are installed into .cache/bin.
BUF_VERSION         := v1.70.0
PROTOC_GO_VERSION   := v1.36.12
CONNECT_GO_VERSION  := v1.21.1
GOLANGCI_VERSION    := v2.15.0
GRPCURL_VERSION     := v1.9.4
HELM_VERSION        := v3.18.6
COMPOSE_VERSION     := v2.9.0
KUBERNETES_VERSION  := v0.33.3
DEADCODE_VERSION    := v0.49.0

TOOLS   := $(CURDIR)/.cache/bin
BIN     := bin/greenroom
MODULES := . abi guest-sdk/go bench examples/counter examples/cart examples/subscription examples/webhook examples/bank/transfers examples/philosophers examples/pingpong examples/chat examples/shop/orders examples/wallet console/generate
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
# Another system and another processor, once: this one is compiled anyway.
CROSS     := darwin/arm64

# Seconds per fuzz target, rounds of kill -9, packages of `make test`.
FUZZTIME ?= 5s
ROUNDS   ?= 1000
# How long `make soak` fuzzes each target, and simulates clusters.
SOAKTIME ?= 1h
# How many messages `make soak` has actors send, on one server and on three.
MESSAGES ?= 1000000
# How long `make soak` lets a hostile tenant at a server.
HOSTILETIME ?= 10m
PKG      ?= ./...
TESTFLAGS ?=

export PATH := $(TOOLS):$(PATH)
# Zstandard in Go, as in what is released: with cgo it is C, which takes gcc a minute.
export GOFLAGS ?= -tags=pebblegozstd

.DEFAULT_GOAL := help
.PHONY: help build demo up cluster down test test-go test-rust test-tinygo test-cockroach setup check fmt vet lint dead generate generated tidy \
        cross deploy-check fuzz soak bench survey release clean tools

help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/greenroom.
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/greenroom

demo: build ## Run the whole path on the embedded store, with a crash in the middle; needs Go only.
	go run ./internal/demo -binary $(BIN)

up: build ## Start a server with the examples deployed, and leave it running (LISTEN=HOST:PORT).
	go run ./internal/demo -binary $(BIN) -up $(if $(LISTEN),-listen $(LISTEN))

cluster: build ## Start a database and three servers, and run them until Ctrl-C (STORE=URL: on that database).
	go run ./internal/demo -binary $(BIN) -cluster $(if $(STORE),-store '$(STORE)')

down: ## Stop the server that `make up` started, and wait for its end.
	go run ./internal/demo -down

setup: $(TOOLS)/grpcurl-$(GRPCURL_VERSION) ## Install what the tests need: PostgreSQL, Rust for Wasm, Node, Python, Chromium, curl, grpcurl.
	build/curl/setup.sh
	build/postgres/setup.sh
	build/rust/setup.sh
	build/node/setup.sh
	build/python/setup.sh
	build/extism/setup.sh
	build/chromium/setup.sh

# What fails keeps nothing else from running, and fails the whole at its end.
test: setup ## Run all tests; installs what they need.
	@failed=; for part in test-go test-rust; do \
	  $(MAKE) --no-print-directory $$part || failed="$$failed $$part"; done; \
	test -z "$$failed" || { cat .cache/test-failures 2>/dev/null; echo "failed:$$failed"; exit 1; }

test-go:
	@PKG='$(PKG)' TESTFLAGS='$(TESTFLAGS)' build/go/test.sh $(MODULES)

test-rust:
	build/rust/test.sh

test-tinygo: ## Build every Go example, the template and guests of tests with the TinyGo on PATH, and run them.
	tinygo version
	go test -count=1 -vet=off -timeout 40m -run 'TinyGo|TestWebhookExample|TestSubscriptionExample|TestBankExample|TestPhilosophersExample|TestPingpongExample|TestChatExample|TestWalletExample|TestReadOfAMap|TestGuestThatReachesMethodsByName' ./internal/node
	go test -count=1 -vet=off -timeout 40m -run 'TestScripts/new_go' ./cmd/greenroom

test-cockroach: ## Run what a store may change on the CockroachDB of GREENROOM_TEST_COCKROACH_URL: contract, guarantees, servers that are killed.
	build/cockroach/test.sh

check: fmt vet lint dead tidy generated cross ## Formatting, vet, lint, code that nothing calls, generated code, module files, import directions, other platforms.
	go test ./internal/lint

fmt:
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "not formatted, run gofmt -w on:"; echo "$$out"; exit 1; }

vet:
	@set -e; for m in $(MODULES); do (cd $$m && go vet ./...); done

lint: $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)
	@set -e; for m in . abi guest-sdk/go bench; do (cd $$m && $< run --config $(CURDIR)/.golangci.yml ./...); done

# abi is for guests as well, which call what hosts do not.
dead: $(TOOLS)/deadcode-$(DEADCODE_VERSION) ## Find functions of the server that nothing but tests calls.
	@out=$$($< -tags pebblegozstd ./cmd/greenroom | grep -v '^abi/'); test -z "$$out" || { echo "nothing but tests calls:"; echo "$$out"; exit 1; }

tidy: ## Check that go.mod and go.sum are what the code needs.
	build/go/tidy.sh $(MODULES)

generate: tools ## Regenerate the API's code, that of typed actors, and the console; needs Node.
	rm -rf api/.deps api/gen internal/node/gen
	go run ./internal/validateproto api/.deps
	buf lint
	buf generate
	buf generate --template internal/node/buf.gen.yaml
	go run ./cmd/greenroom generate --lang go --out examples/wallet/walletv1 --id wallet_id -I examples/wallet/proto examples/wallet/proto/wallet/v1/wallet.proto
	go run ./cmd/greenroom generate --lang rust --out examples/wallet/rust/src/walletv1.rs --id wallet_id -I examples/wallet/proto examples/wallet/proto/wallet/v1/wallet.proto
	go run ./cmd/greenroom generate --lang go --out internal/guestgen/gen/sink internal/guestgen/gen/sink/sink.proto
	go run ./cmd/greenroom generate --lang rust --out internal/guestgen/testdata/sink/src/sink.rs internal/guestgen/gen/sink/sink.proto
	build/node/setup.sh
	console/generate.sh

GENERATED := api/gen console/dist internal/node/gen internal/guestgen/gen internal/guestgen/testdata/sink/src/sink.rs examples/wallet/walletv1 examples/wallet/rust/src/walletv1.rs

generated: generate
	@git diff --exit-code --stat -- $(GENERATED) || { echo "generated code is not up to date: run make generate and commit"; exit 1; }
	@test -z "$$(git ls-files --others --exclude-standard $(GENERATED))" || { echo "generated files are not committed: git add $(GENERATED)"; exit 1; }

cross: ## Compile for the other systems and processors.
	@set -e; for p in $(CROSS); do echo "compile $$p"; \
	  CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} go build -o /dev/null ./cmd/greenroom; done

deploy-check: build $(TOOLS)/helm-$(HELM_VERSION) $(TOOLS)/compose-$(COMPOSE_VERSION) $(TOOLS)/manifests-$(KUBERNETES_VERSION) ## Validate deploy/: the compose file, the Helm chart, the systemd unit, and the flags that they name.
	build/deploy/check.sh $(BIN) $(TOOLS)/helm-$(HELM_VERSION) $(TOOLS)/compose-$(COMPOSE_VERSION) $(TOOLS)/manifests-$(KUBERNETES_VERSION)

release: ## Build dist/greenroom-OS-ARCH for every platform.
	@set -e; for p in $(PLATFORMS); do \
	  CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} go build -trimpath -ldflags '$(LDFLAGS)' -o dist/greenroom-$${p%/*}-$${p#*/} ./cmd/greenroom; done

fuzz: ## Run every fuzz target for FUZZTIME each.
	FUZZTIME=$(FUZZTIME) build/fuzz.sh

soak: build ## Kill and freeze servers under load, and with reminders, ROUNDS times, upload every bomb, let a hostile tenant at a server, simulate clusters and reminders, and fuzz upload and metering for SOAKTIME each.
	GREENROOM_KILL_ROUNDS=$(ROUNDS) GREENROOM_MESSAGES=$(MESSAGES) GREENROOM_BOMBS=all go test -count=1 -timeout 0 -v -run 'TestKill|TestFrozen|TestBombs|TestThreeHosts|TestTransfers|TestLives|TestFamilies|TestManyMessages|TestLostBetween' ./internal/crash ./internal/cluster
	go test -count=1 -timeout 0 -v ./internal/hostile -duration $(HOSTILETIME)
	go test -count=1 -timeout 0 -v -run TestSimulation ./internal/sim -for $(SOAKTIME)
	go test -count=1 -timeout 0 -v -run TestSimulation ./scheduler/reminder -for $(SOAKTIME)
	FUZZTIME=$(SOAKTIME) build/fuzz.sh guests

bench: ## Measure what is promised about speed: all of it, AREA=pipeline, or BAR=pipeline.1; RUNS times; RECORD=bench/README.md writes it down.
	@go run ./bench $(if $(AREA),-area $(AREA)) $(if $(BAR),-bar $(BAR)) $(if $(RUNS),-runs $(RUNS)) $(if $(RECORD),-record $(RECORD))

survey: ## Measure what users may expect of this machine, and write it into docs/performance.md.
	@go run ./bench -runs $(or $(RUNS),2) -table docs/performance.md

tools: $(TOOLS)/buf-$(BUF_VERSION) $(TOOLS)/protoc-gen-go-$(PROTOC_GO_VERSION) $(TOOLS)/protoc-gen-connect-go-$(CONNECT_GO_VERSION)

# $(call install,name,module@version): go install, under a name that carries the
# version, so that a new pin installs anew.
define install
	@mkdir -p $(TOOLS)
	GOWORK=off GOBIN=$(TOOLS) go install $(2)
	@mv $(TOOLS)/$(1) $@ && ln -sf $(notdir $@) $(TOOLS)/$(1)
endef

$(TOOLS)/buf-$(BUF_VERSION):
	$(call install,buf,github.com/bufbuild/buf/cmd/buf@$(BUF_VERSION))
$(TOOLS)/protoc-gen-go-$(PROTOC_GO_VERSION):
	$(call install,protoc-gen-go,google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GO_VERSION))
$(TOOLS)/protoc-gen-connect-go-$(CONNECT_GO_VERSION):
	$(call install,protoc-gen-connect-go,connectrpc.com/connect/cmd/protoc-gen-connect-go@$(CONNECT_GO_VERSION))
$(TOOLS)/deadcode-$(DEADCODE_VERSION):
	$(call install,deadcode,golang.org/x/tools/cmd/deadcode@$(DEADCODE_VERSION))
$(TOOLS)/grpcurl-$(GRPCURL_VERSION):
	$(call install,grpcurl,github.com/fullstorydev/grpcurl/cmd/grpcurl@$(GRPCURL_VERSION))
$(TOOLS)/compose-$(COMPOSE_VERSION):
	@mkdir -p $(TOOLS)
	build/deploy/compose.sh $(COMPOSE_VERSION) $@
$(TOOLS)/manifests-$(KUBERNETES_VERSION):
	@mkdir -p $(TOOLS)
	build/deploy/manifests.sh $(KUBERNETES_VERSION) $@
$(TOOLS)/helm-$(HELM_VERSION):
	$(call install,helm,helm.sh/helm/v3/cmd/helm@$(HELM_VERSION))
$(TOOLS)/golangci-lint-$(GOLANGCI_VERSION):
	$(call install,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION))

clean: ## Remove everything built.
	rm -rf bin dist .cache api/.deps
