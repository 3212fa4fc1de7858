# SPDX-License-Identifier: Apache-2.0
# Every target can be run again at any time; none writes a file that git tracks, except lock, proto, deploy-manifests and fmt.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The Python that makes .venv; everything else runs in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv/bin
TOOLS := PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -m tools
LAB := PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -m lab --name dev
# What the dev stack's commands run in; the working stack file follows the tracked one first.
# The local cluster is used unless KUBECONFIG names another one.
LAB_KUBECONFIG := /var/lib/ascend-pd/lab/dev/kubeconfig
ON_LAB = [ "$${KUBECONFIG:-$(LAB_KUBECONFIG)}" = "$(LAB_KUBECONFIG)" ]
# The Kubernetes provider leaves a copy of the kubeconfig in the temporary folder at each run: give it one that goes away.
IN_STACK := $(TOOLS) env >/dev/null; . ./.env.sh; export TMPDIR=$$(mktemp -d); trap 'rm -rf "$$TMPDIR"' EXIT;
PIN = uv pip compile -q pyproject.toml --generate-hashes --no-emit-index-url --no-header $(addprefix --upgrade-package ,$(UPGRADE))
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

##@ The stack

.PHONY: lab
lab: ## Start the local cluster of five nodes, or what is down of it (not when KUBECONFIG names another cluster)
	@if $(ON_LAB); then $(LAB) up; fi

.PHONY: images
images: setup tools ## Build the container images that are not current and load them into the local cluster
	@$(VENV)/python -m images
	@if $(ON_LAB) && $(LAB) status >/dev/null 2>&1; then $(LAB) load $$($(VENV)/python -m images --print-archives); fi

.PHONY: images-push
images-push: ## Copy the images to REGISTRY (a prefix) and print what a stack file needs to use them there
	@[ -n "$(REGISTRY)" ] || { echo "images-push: name your registry: make images-push REGISTRY=registry.example.internal/ascend-pd" >&2; exit 2; }
	@$(MAKE) setup tools
	@$(VENV)/python -m images --push $(REGISTRY)

.PHONY: up
up: ## Local cluster, images, the whole stack, and a request through it (another cluster: see README)
	@if $(ON_LAB); then $(MAKE) nodes-and-images; else $(MAKE) deploy-tools; fi
	@$(TOOLS) env >/dev/null
	@$(IN_STACK) $(TOOLS) stack
	@$(IN_STACK) pulumi up --yes --skip-preview --suppress-outputs
	@$(MAKE) smoke
	@$(IN_STACK) $(VENV)/ascend-pd status --wait-s 120

.PHONY: nodes-and-images
nodes-and-images:
	@$(LAB) check
	@$(MAKE) setup tools
	@$(MAKE) doctor
	@$(VENV)/python -m images
	@$(MAKE) lab
	@$(LAB) load $$($(VENV)/python -m images --print-archives)

# All that a cluster of your own needs here: neither root nor system packages.
.PHONY: deploy-tools
deploy-tools: venv
	@$(TOOLS) build --only pulumi pulumi-language-python pulumi-resource-tls pulumi-resource-kubernetes kubectl

.PHONY: smoke
smoke: ## Send one request through the Coordinator and name the pods that worked on it
	@$(IN_STACK) $(VENV)/ascend-pd smoke

.PHONY: status
status: ## Nodes, pods, etcd, roles, certificates, problems
	@$(IN_STACK) $(VENV)/ascend-pd status

.PHONY: preview
preview: ## Preview the stack; exit code 0 only when nothing would change
	@$(IN_STACK) pulumi preview --expect-no-changes

STACK ?= dev
# Another stack than dev: backend, passphrase and cluster of the caller, as with a bare pulumi.
IN_ANY_STACK = $(if $(filter dev,$(STACK)),$(IN_STACK),unset PULUMI_OPTION_CONFIG_FILE PULUMI_STACK; export PATH="$$PATH:$(CURDIR)/.tools/bin" PULUMI_OPTION_POLICY_PACK="$(CURDIR)/policies";)
.PHONY: pr-preview
pr-preview: ## Preview STACK for a pull request: build/preview.md and build/preview.json, no secrets
	@mkdir -p build
	@$(IN_ANY_STACK) PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true pulumi preview --stack $(STACK) --json --non-interactive \
		| $(VENV)/ascend-pd pr-summary - --stack $(STACK)

.PHONY: down
down: ## Remove the stack and the local cluster
	@if $(ON_LAB); then $(IN_STACK) $(TOOLS) forget-stack; $(LAB) down; \
	else $(IN_STACK) pulumi destroy --yes --skip-preview --suppress-outputs; fi

##@ Working on the code

.PHONY: lint
lint: venv ## Check style, layers between packages and declared dependencies
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check --quiet .
	@$(VENV)/lint-imports --no-logo
	@$(VENV)/deptry --no-ansi .

.PHONY: types
types: venv ## Check types (mypy; strict everywhere but in tests)
	@$(VENV)/mypy

.PHONY: fmt
fmt: venv ## Format the code and sort imports
	@$(VENV)/ruff check --select I --fix --quiet .
	@$(VENV)/ruff format .

.PHONY: test-fast
test-fast: venv ## Run the unit tests that start no process: under a minute, without root or binaries
	@$(VENV)/pytest -q -n 2 --dist loadgroup -m "not process" tests/unit tests/policy

.PHONY: test
test: setup tools ## Run every tier: units, real API server and etcd, real Pulumi engine, real nodes
	@$(VENV)/python -m images
	@$(VENV)/pytest -q -n 2 --dist loadgroup

.PHONY: bench-preview
bench-preview: venv ## Measure previews of the deployed dev stack against the same resources declared bare
	@$(IN_STACK) $(VENV)/python -m tests.bench.preview

.PHONY: proto
proto: venv ## Generate the gRPC code next to each .proto file
	@PATH="$(CURDIR)/$(VENV):$$PATH" $(VENV)/python -m grpc_tools.protoc -I . \
		--python_out=. --grpclib_python_out=. --mypy_out=. $(PROTOS)

.PHONY: lock
lock: venv ## Pin in requirements/ what pyproject.toml asks for, with hashes (UPGRADE=name: also move that package)
	@$(VENV)/$(PIN) -o requirements/runtime.lock
	@$(VENV)/$(PIN) --extra pulumi --extra dev --extra docs -o requirements/dev.lock

.PHONY: deploy-manifests
deploy-manifests: venv ## Render deploy/infer-operator.yaml from the components
	@$(VENV)/python -m deploy.render

.PHONY: clean
clean: ## Remove what was generated in this checkout (not .venv, .tools or anything outside)
	@rm -rf build dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
