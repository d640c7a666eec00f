# Every task of a developer or a newcomer is a target of this file.
# Variables: ARGS (arguments of `make run`), ARCHS (of `make image` and `make release`), CLIENTS (of `make client` and `make release`), VERSION, COSIGN_KEY (of `make release`), STAGES (stages of `make test` to run), NAME (of `make check-member`), MEASURE (a regular expression:
# the measurements of `make measure` to run; the table keeps the rows of the others).

SHELL   := /bin/bash
ARCHS   ?= amd64 arm64
CLIENTS ?= darwin/arm64 windows/amd64
ifndef VERSION # asked once, so all parts of a build have the same
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
endif
LDFLAGS := -s -w -X github.com/teescope/teescope/internal/build.version=$(VERSION)
# Programs are static, and have no paths of the machine that built them, so their size is the same everywhere (-trimpath). Tests have no such
# flag: a bare `go test ./internal/stats` uses what make compiled for tests, and with CGO_ENABLED=0 in the shell also a package that uses the network.
export CGO_ENABLED := 0
# tools/setup.sh puts node here if the machine's own is too old.
export PATH := $(CURDIR)/.tools/node_modules/.bin:$(CURDIR)/.tools/bin:$(PATH)

# The parts of `make torture` to run.
PARTS ?= seam,calls,kill,full,bits
# What drives a browser in tests. npm leaves its lock file in node_modules; if that is older than
# the repository's, npm installs again.
BROWSER := e2e/browser/node_modules/.package-lock.json

.DEFAULT_GOAL := help
.PHONY: help build client zkvm llm ferretdb runsc image run demo test measure torture test-full release release-test kernels check check-member bench bench-gate-selftest generate ui e2e e2e-kubernetes cluster cluster-down picture clean

help: ## list these targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-19s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ui ## build bin/teescope, a static binary that contains the page, and the smaller programs
	go build -trimpath -ldflags "$(LDFLAGS)" -o bin/teescope ./cmd/teescope
	go build -trimpath -ldflags "$(LDFLAGS)" -o bin/teescope-agent ./cmd/teescope-agent
	go build -trimpath -ldflags "$(LDFLAGS)" -o bin/teescope-work ./cmd/teescope-work
	go build -trimpath -ldflags "$(LDFLAGS)" -o bin/teescope-prove ./cmd/teescope-prove

# The client for CLIENTS, with more flags of `go build`.
define clients
@for of in $(CLIENTS); do \
	mkdir -p bin/client/$$of && \
	GOOS=$${of%/*} GOARCH=$${of#*/} go build $(1) -ldflags "$(LDFLAGS)" -o bin/client/$$of/ ./cmd/teescope || exit 1; \
done
endef

client: ## build the client for CLIENTS (macOS and Windows) into bin/client: it reads results and asks a monitor elsewhere
	$(call clients)

zkvm: bin/teescope-zkvm ## build bin/teescope-zkvm, the prover of the workload zkvm, from its Rust crates (five minutes, 0.7 GB in .tools/zkvm)

bin/teescope-zkvm: $(shell find workloads/zkvm -type f -not -name '*.go' -not -name '*.md' 2>/dev/null)
	@tools/setup.sh zkvm
	cd workloads/zkvm && cargo build --release --locked --target $(shell uname -m)-unknown-linux-gnu
	@mkdir -p bin && cp .tools/zkvm/$(shell uname -m)-unknown-linux-gnu/release/teescope-zkvm $@

llm: ## build llama.cpp's server, fetch a small model with real weights and make two with random ones, for the workload llm (20 minutes, 0.8 GB)
	@tools/setup.sh llm

ferretdb: bin/ferretdb ## build FerretDB, a server for the workload mongodb, from its Go module into bin (three minutes, 0.3 GB while it builds)

bin/ferretdb: tools/ferretdb/go.mod tools/ferretdb/go.sum
	@tools/setup.sh ferretdb

runsc: ## build gVisor's runsc into .tools, for the environment of that name (five minutes)
	@tools/setup.sh runsc

# The programs for ARCHS, in the folders from which images and packages are made, with more flags of `go build` and more programs.
define programs
@for arch in $(ARCHS); do \
	mkdir -p bin/image/$$arch/bin && \
	GOARCH=$$arch go build $(1) -ldflags "$(LDFLAGS)" -o bin/image/$$arch/bin/ ./cmd/teescope ./cmd/teescope-work $(2) || exit 1; \
done
endef

# What is shipped names no folder of the machine that built it.
image client: export GOFLAGS := $(GOFLAGS) -trimpath

# What is packed names the commit, and has the commit's time.
ORIGIN = -version "$(VERSION)" -revision "$$(git rev-parse HEAD 2>/dev/null)" -created "$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 0)}" $(foreach arch,$(ARCHS),$(arch)=bin/image/$(arch))

image: ui ## build the container image for ARCHS and lists of its contents (SBOM) in bin; needs no container engine
	$(call programs)
	@go run ./tools/image -o bin/teescope.oci.tar -sbom bin $(ORIGIN)
	@ls -l bin/teescope.oci.tar $(ARCHS:%=bin/teescope-%.cdx.json)

# The programs of a release say from which commit they are (-buildvcs) and are for every processor of ARCHS, and no variable of the
# environment gives them experiments of Go or its FIPS module. The page and its packages are built again: git does not see what lies there.
release: export GOFLAGS := -trimpath
release: export GOAMD64 := v1
release: export GOARM64 := v8.0
release: export GOEXPERIMENT :=
release: export GOFIPS140 := off
release: ## make a release of the commit in bin/release, for ARCHS and CLIENTS (VERSION=v0.1.0; COSIGN_KEY=FILE signs it): docs/dev/release.md
	@test -d .git || { echo "make release: Go does not see the commit in a worktree of git: use a clone" >&2; exit 1; }
	@test -z "$$(git status --porcelain)" || { echo "make release: the tree has changes that are in no commit: commit them, or take them away (a key lies outside the tree)" >&2; exit 1; }
	@go -C tools/release run . -check $(ORIGIN)
	@rm -rf $(PAGE)
	@$(MAKE) --no-print-directory -B ui
	@rm -rf bin/release && mkdir -p bin/release
	$(call programs,-buildvcs=true,./cmd/teescope-agent)
	$(call clients,-buildvcs=true)
	@go run ./tools/image -o bin/release/teescope.oci.tar -name docker.io/library/teescope:$(VERSION) -sbom bin/release $(ORIGIN)
	@go -C tools/release run . $(ORIGIN) $(foreach of,$(CLIENTS),$(of)=bin/client/$(of))

release-test: ## make a release twice, in two folders and at two times, and compare it; install or unpack each of its files, and use it (half an hour)
	@tools/setup.sh release
	TEESCOPE_RELEASE=1 go test -v -count=1 -timeout 90m -run 'TestRelease' ./deploy

run: build ## build, then monitor this machine (ARGS="--listen 127.0.0.1:9999")
	@exec bin/teescope monitor $(ARGS)

demo: build ## watch a finding open, get explained and close: redis under load, then a system call storm (3 minutes)
	@tools/setup.sh demo
	@go run ./e2e/demo

test: ## run every test on this machine; ends with failures, skips and the ten slowest tests (20 minutes on a quiet machine of two CPUs, 36 the first time)
	@tools/setup.sh test
	@$(MAKE) --no-print-directory $(BROWSER)
	@TEESCOPE_BIN=$(CURDIR)/bin/teescope go run ./tools/stages $(STAGES)

measure: ## judge the promises that only a live machine can show, and write docs/lab/measured.md (half an hour on a quiet machine)
	@tools/setup.sh test
	@$(MAKE) --no-print-directory $(BROWSER)
	@TEESCOPE_BIN=$(CURDIR)/bin/teescope MEASURE='$(MEASURE)' go run ./tools/stages build measure

torture: ## make the storage fail in thousands of ways, and write docs/reliability.md (PARTS=seam,calls,kill,full,bits; it goes on where it stopped; up to three hours)
	go run ./e2e/torture -parts $(PARTS) -table docs/reliability.md

test-full: zkvm llm ferretdb test measure release-test kernels e2e-kubernetes ## the zkVM's prover, a language model, FerretDB, the tests, the measurements, a release made twice, the kernel matrix, Kubernetes and fuzzing (two hours)
	go run ./tools/stages fuzz

kernels: build ## boot every kernel in Debian's archive, in every mode, and write docs/lab/kernels.md (45 minutes)
	@tools/setup.sh kernels
	TEESCOPE_BIN=$(CURDIR)/bin/teescope go test -count=1 -timeout 90m ./e2e/kernels -args -matrix -table $(CURDIR)/docs/lab/kernels.md

e2e-kubernetes: build ## install the chart on a real Kubernetes, and run benchmarks in pods (the first time builds Kubernetes: ten minutes)
	@tools/setup.sh kubernetes
	TEESCOPE_BIN=$(CURDIR)/bin/teescope go test -v -count=1 -timeout 120m ./e2e/kubernetes -args -node

cluster: build ## start a Kubernetes of two nodes that stays up, for k8s-network and k8s-storage (the first time builds Kubernetes: ten minutes)
	@tools/setup.sh kubernetes
	@TEESCOPE_BIN=$(CURDIR)/bin/teescope go run ./e2e/cluster up

cluster-down: ## end what make cluster started
	@go run ./e2e/cluster down

check: ## check format, lints (vet among them), import table and generated files (needs clang and node)
	@tools/setup.sh check
	@go run ./tools/stages format lint types generated
	go test -count=1 ./internal

check-member: ## run what the member NAME of a list needs (a source, rule, cause, price, workload, launcher, TEE), and name the places that were forgotten (under a minute)
	@go run ./tools/member "$(NAME)"

bench: build ## measure cost, speed and size; print the tables of docs/lab/performance.md (two hours)
	@tools/setup.sh test
	@$(MAKE) --no-print-directory $(BROWSER)
	go test -run '^$$' -bench . -benchmem ./... ./channel/...
	go run ./e2e/perf
	go run ./e2e/throughput
	go run ./e2e/throughput -ledger -servers redis,nginx -rounds 30 -warm 2s -measure 3s
	go run ./e2e/accuracy
	go run ./e2e/generator
	go run ./e2e/channel
	go run ./e2e/fleet

bench-gate-selftest: build ## 100 gates over equal builds and 20 over a slower one, for docs/statistics.md (half an hour on a quiet machine)
	@tools/setup.sh demo
	go run ./e2e/gate -csv docs/lab/statistics-gate.csv

generate: ## regenerate eBPF objects, the types of the page, Grafana's dashboards and the generated pages of docs
	@tools/setup.sh generate
	go generate ./...

ui/node_modules/.package-lock.json $(BROWSER): %/node_modules/.package-lock.json: %/package.json %/package-lock.json
	@tools/setup.sh build
	cd $* && { npm ci --no-audit --no-fund || { sleep 30; npm ci --no-audit --no-fund; }; }

ui/dist/index.html: ui/node_modules/.package-lock.json $(shell find ui -type f -not -path 'ui/node_modules/*' -not -path 'ui/dist/*' 2>/dev/null)
	cd ui && npm run build
	@touch $@

# The built page.
PAGE = $(filter-out ui/dist/placeholder.html,$(wildcard ui/dist/*))

ui: ui/dist/index.html ## build the page into ui/dist

e2e: ## run only the tests with real servers, kernels and a browser
	@tools/setup.sh test
	@$(MAKE) --no-print-directory $(BROWSER)
	@TEESCOPE_BIN=$(CURDIR)/bin/teescope go run ./tools/stages build e2e browser

picture: build ## take the pictures of the page in docs/images again, of a host that is played back
	@tools/setup.sh picture
	@$(MAKE) --no-print-directory $(BROWSER)
	cd e2e/browser && TEESCOPE_BIN=$(CURDIR)/bin/teescope TEESCOPE_PICTURE=1 node --test picture.test.js

clean: ## end the cluster, and remove what these targets built
	@[ ! -e .tools/cluster ] || $(MAKE) --no-print-directory cluster-down
	rm -rf bin .tools ui/node_modules e2e/browser/node_modules $(PAGE)
