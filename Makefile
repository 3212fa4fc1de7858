# SPDX-License-Identifier: Apache-2.0
# Every target can be run again at any time; none writes a file that git tracks, except proto and fmt.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The Python that makes .venv; everything else runs in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv/bin
TOOLS := PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -m tools
PROTOS = $(wildcard controller_runtime/*/proto/*.proto simulator/proto/*.proto)

##@ Getting ready

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Make .venv from the lock and install missing system packages (SETUP_APT=0: only print them)
	@$(TOOLS) setup

.PHONY: venv
venv:
	@$(TOOLS) setup --venv-only

.PHONY: tools
tools: ## Build the tool binaries that are not here yet (25 minutes at first, then none)
	@$(TOOLS) build

.PHONY: doctor
doctor: ## Check everything the other targets need and say how to fix what is missing
	@$(TOOLS) doctor

.PHONY: env
env: ## Write .env.sh, which makes a bare pulumi or kubectl act on the dev stack
	@$(TOOLS) env

##@ Working on the code

.PHONY: lint
lint: venv ## Check style, layers between packages and declared dependencies
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check --quiet .
	@$(VENV)/lint-imports --no-logo --no-timings
	@$(VENV)/deptry --no-ansi .

.PHONY: types
types: venv ## Check types (mypy; strict everywhere but in tests)
	@$(VENV)/mypy

.PHONY: fmt
fmt: venv ## Format the code and sort imports
	@$(VENV)/ruff check --select I --fix --quiet .
	@$(VENV)/ruff format .

.PHONY: test-fast
test-fast: venv ## Run the unit tests: no root, no binaries but Go, no network
	@$(VENV)/pytest -q tests/unit

.PHONY: proto
proto: venv ## Generate the gRPC code next to each .proto file
	@PATH="$(CURDIR)/$(VENV):$$PATH" $(VENV)/python -m grpc_tools.protoc -I . \
		--python_out=. --grpclib_python_out=. --mypy_out=. $(PROTOS)

.PHONY: clean
clean: ## Remove what was generated in this checkout (not .venv, .tools or anything outside)
	@rm -rf build dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
