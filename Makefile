# Copyright The otelcol-fpm Authors
# SPDX-License-Identifier: Apache-2.0

# Everything a target needs it sets up itself, inside this folder: the Python
# environment of the interop tests in .venv, tools in .cache/bin.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

# Always the release's own tools (see internal/tools/go.mod).
TOOL := go tool -modfile=internal/tools/go.mod

GOLANGCI_VERSION := v2.15.0
GOLANGCI := .cache/bin/golangci-lint-$(GOLANGCI_VERSION)
GOVULNCHECK_VERSION := v1.8.0

PYTHON ?= python3
VENV := .venv/installed

BINARY := dist/otelcol-fpm
# Tests that drive the built binary; they are `make e2e`.
E2E := test/e2e test/metrics test/prometheus test/traces test/dashboards test/faults test/security
# Those of which make test runs a subset.
E2E_SHORT := test/e2e test/faults
# What make sets up must be there. In CI (1) the rights of root must be as well.
E2E_REQUIRED = $(or $(CI_E2E_REQUIRED),setup)

FAULTS ?=
SOAK ?= 30m
FUZZTIME ?= 50000x
BENCH ?= .
BENCHCOUNT ?= 1

.PHONY: build run test e2e faults soak lint generate check-generate bench fuzz fmt tidy validate-examples ci clean

## build: the distribution, dist/otelcol-fpm, and the synthetic engine, bin/fpmgen
build: bin/fpmgen
	$(TOOL) builder --config=builder-config.yaml

.PHONY: bin/fpmgen
bin/fpmgen:
	CGO_ENABLED=0 go build -trimpath -o $@ ./cmd/fpmgen

## run: the main job: a synthetic engine, the collector, trace files. Ctrl-C stops it.
run: build
	@test/demo/run.sh

## test: all tests of the module, with the race detector, what is short of those of the binary, and a short run of every fuzzer
test: build $(VENV)
	OTELCOL_FPM_PYTHON=$(abspath .venv/bin/python) CI_INTEROP_REQUIRED=1 \
		$(TOOL) gotestsum --format pkgname-and-test-fails -- -race -timeout 240s \
		$$(go list ./... | grep -vE '/($(subst $() ,|,$(E2E)))(/|$$)')
	OTELCOL_FPM_PYTHON=$(abspath .venv/bin/python) CI_E2E_REQUIRED=$(E2E_REQUIRED) \
		$(TOOL) gotestsum --format pkgname-and-test-fails -- -short -count=1 -timeout 240s $(addprefix ./,$(E2E_SHORT))
	$(MAKE) fuzz FUZZTIME=$(FUZZTIME)

## e2e: the built binary with real libzmq publishers, kills, foreign builds
e2e: build $(VENV)
	test/prometheus/install.sh
	OTELCOL_FPM_PYTHON=$(abspath .venv/bin/python) CI_INTEROP_REQUIRED=1 CI_E2E_REQUIRED=$(E2E_REQUIRED) E2E_FOREIGN=1 \
		$(TOOL) gotestsum --format pkgname-and-test-fails -- -count=1 -p 1 -timeout 30m $(addsuffix /...,$(addprefix ./,$(E2E)))

## faults: breaks everything that the binary depends on; FAULTS=full for the long variants
faults: build $(VENV)
	OTELCOL_FPM_PYTHON=$(abspath .venv/bin/python) CI_INTEROP_REQUIRED=1 CI_E2E_REQUIRED=$(E2E_REQUIRED) FAULTS=$(FAULTS) \
		$(TOOL) gotestsum --format pkgname-and-test-fails -- -count=1 -timeout 60m ./test/faults/...
	if [ "$(FAULTS)" = full ]; then \
		OTELCOL_FPM_PYTHON=$(abspath .venv/bin/python) CI_E2E_REQUIRED=$(E2E_REQUIRED) E2E_KILLS=200 \
		go test -count=1 -timeout 60m -run TestAcknowledgedSurvivesKill_FIL57 ./test/e2e; \
	fi

## soak: 512 streams for SOAK (default 30m), judged and plotted
soak: build
	test/soak/run.sh $(SOAK)

## lint: style, contracts and known vulnerabilities
lint: $(GOLANGCI)
	$(GOLANGCI) run ./...
	@test/lint/vulnerabilities.sh $(GOVULNCHECK_VERSION)

## generate: code and tables from each metadata.yaml
generate:
	go generate ./...

## check-generate: fails when generated files are not what generate makes
check-generate:
	@before="$$(git status --porcelain; git diff HEAD | sha256sum)"; \
	$(MAKE) generate; \
	if [ "$$before" != "$$(git status --porcelain; git diff HEAD | sha256sum)" ]; then \
		git status --short; git diff --stat; \
		echo "generated files are not what make generate makes: commit what it made" >&2; exit 1; \
	fi

## bench: every benchmark, with allocations; BENCH= selects, BENCHCOUNT= repeats
bench:
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) ./...

## fuzz: every fuzz target, one after the other, for FUZZTIME each: executions (50000x) or a duration (15m)
fuzz:
	@test/fuzz/run.sh $(FUZZTIME)

## validate-examples: every example passes the collector's own validation
validate-examples: build
	@for config in examples/*/*.yaml; do echo "$$config"; $(BINARY) validate --config "$$config"; done

fmt:
	$(TOOL) gofumpt -w $$(git ls-files '*.go' | grep -v /generated_)

tidy:
	go mod tidy
	cd internal/tools && go mod tidy

## ci: what has to pass before anything lands
ci:
	.ci/run

clean:
	rm -rf dist bin run

$(VENV): test/requirements.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement test/requirements.txt
	touch $@

$(GOLANGCI):
	GOBIN=$(abspath .cache/bin) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv .cache/bin/golangci-lint $@
