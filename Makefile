# Airlock. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN     := bin/airlock
LINT    := bin/golangci-lint
S3      := bin/s3server
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
SOURCES  = $(shell git ls-files -co --exclude-standard '*.go' '*.sql' '*.html' '*.css' '*.js' 2>/dev/null)

# What `make run` keeps between runs: the state database, logs, a small
# warehouse. `make clean` removes it.
export AIRLOCK_HOME ?= $(CURDIR)/.airlock

# The packages whose code runs in several goroutines at once: `make race`.
RACE := ./executor ./dag/proc/... ./callbacks/... ./sql/store/... ./cmd/...

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: $(BIN) ## build the one static binary, bin/airlock

$(BIN): $(SOURCES) go.mod go.sum
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/airlock

# Which of the examples `make run` runs.
DAG ?= media_ingest

.PHONY: run
run: build ## run examples/media_ingest.yml once in the foreground, on SQLite (DAG=transcode_catalogue)
	.ci/deps ffmpeg
	mkdir -p '$(AIRLOCK_HOME)'
	AIRLOCK_CONN_WAREHOUSE='sqlite:///$(AIRLOCK_HOME)/warehouse.db' \
		$(BIN) dags test $(DAG) --dags-folder examples

# The S3 server that the upload step is tested on; tests that miss it build it.
$(S3): .ci/s3/main.go .ci/s3/go.mod .ci/s3/go.sum
	cd .ci/s3 && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o ../../$@ .

.PHONY: test
test: $(S3) ## run all tests: real SQLite, MariaDB, ffmpeg, python3 and processes (installs what is missing)
	.ci/deps git ffmpeg mariadb-server python3
	go test -timeout 20m ./...

.PHONY: race
race: ## run the concurrent packages' tests under the race detector
	.ci/deps gcc git ffmpeg mariadb-server python3
	CGO_ENABLED=1 go test -race -short -timeout 20m $(RACE)

.PHONY: test-mysql
test-mysql: ## run the SQL suites on a private MySQL server, fetched on first use
	.ci/deps python3
	.ci/test-mysql ./sql/... ./executor/operator/merge/... ./executor/operator/sql/... ./executor/operator/sqlsensor/...

.PHONY: test-alerts
test-alerts: ## run the tests of the alert rules (examples/alerts) with Prometheus' own engine
	cd .ci/alerts && go test ./...

# A longer attack than that of `make test`; ROUNDS and SEED say which.
ROUNDS ?= 40
SEED   ?= 1
KILLS  ?= 200

.PHONY: crash
crash: ## kill -9 everything, again and again, and count (ROUNDS=40 SEED=1)
	.ci/deps mariadb-server python3
	.ci/mysql get "$${AIRLOCK_MYSQL_DIR:-$${XDG_CACHE_HOME:-$$HOME/.cache}/airlock/mysql}"
	AIRLOCK_CRASH_ROUNDS=$(ROUNDS) AIRLOCK_CRASH_SEED=$(SEED) go test -count=1 -v -timeout 60m -run '^TestCrash' ./integration

.PHONY: drain
drain: ## replay 3,000 dead letters at several rates while everything is killed, and count (SEED=1)
	.ci/deps mariadb-server python3
	.ci/mysql get "$${AIRLOCK_MYSQL_DIR:-$${XDG_CACHE_HOME:-$$HOME/.cache}/airlock/mysql}"
	AIRLOCK_DRAIN_LONG=1 AIRLOCK_CRASH_SEED=$(SEED) go test -count=1 -v -parallel 1 -timeout 60m -run '^TestDrainUnderFire' ./integration

.PHONY: crash-media
crash-media: ## kill ffmpeg, workers and Airlock amid encodes, and look at the catalogue (KILLS=200 SEED=1)
	.ci/deps ffmpeg
	AIRLOCK_MEDIA_KILLS=$(KILLS) AIRLOCK_CRASH_SEED=$(SEED) go test -count=1 -v -timeout 60m -run '^TestMediaSurvivesKills' ./integration

.PHONY: galera
galera: ## run a fleet over a Galera cluster of three nodes, one of them killed
	.ci/deps mariadb-server galera-4 rsync
	AIRLOCK_GALERA=1 go test -count=1 -v -timeout 20m -run '^TestGalera$$' ./integration

.PHONY: check
check: $(LINT) ## format, vet, linter, module files, shell scripts, build
	@echo 'gofmt'; wrong=$$(gofmt -l $$(git ls-files '*.go' | grep -v /testdata/)); \
		[ -z "$$wrong" ] || { echo "not gofmt'd:"; echo "$$wrong"; exit 1; }
	@for script in $$(git ls-files .ci); do \
		if head -c 64 "$$script" | grep -q 'bash'; then bash -n "$$script"; fi; done
	go vet ./...
	$(LINT) run ./...
	go mod verify
	go mod tidy -diff
	$(MAKE) --no-print-directory build

# The linter has a module of its own, so that its few hundred dependencies stay
# out of the binary's go.mod.
$(LINT): .ci/tools/go.mod .ci/tools/go.sum
	cd .ci/tools && CGO_ENABLED=0 go build -trimpath -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: lint-fix
lint-fix: $(LINT) ## let the linter mend what it can
	$(LINT) run --fix ./...

.PHONY: conformance
conformance: ## compare random DAGs with Apache Airflow itself (fetches Airflow once; minutes)
	.ci/deps python3
	go run ./integration/conformance $(if $(SEED),-seed $(SEED)) $(if $(DAGS),-dags $(DAGS)) $(if $(CORPUS),-corpus '$(CORPUS)') $(if $(KEEP),-keep '$(KEEP)')
	AIRLOCK_TEST_AIRFLOW=$${XDG_CACHE_HOME:-$$HOME/.cache}/airlock-conformance go test -count=1 ./integration/conformance

.PHONY: bench
bench: ## run the benchmarks, each for two seconds
	go test -run '^$$' -bench . -benchmem -benchtime 2s ./...

.PHONY: cover
cover: ## measure test coverage and print the packages' shares
	.ci/deps git ffmpeg mariadb-server python3
	go test -timeout 20m -coverpkg ./... -coverprofile coverage.out ./...
	go tool cover -func coverage.out | tail -n 1

.PHONY: image
image: ## build the container image airlock:VERSION
	docker build --build-arg VERSION='$(VERSION)' -t 'airlock:$(VERSION)' .

.PHONY: clean
clean: ## remove what builds and runs left here
	rm -rf bin .airlock examples/media_ingest examples/transcode_catalogue coverage.out
