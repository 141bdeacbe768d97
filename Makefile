# Start with `make demo` and `make test`. Both create the virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

DOCS_STAMP := $(VENV)/.installed-docs
BROWSER_STAMP := $(VENV)/.installed-browser

.PHONY: demo test docs check format bench bench-k8s test-slow test-long test-k8s test-frameworks test-frameworks-ci failed chart installer clean

demo: $(STAMP)
	@$(BIN)/python -m volcano.cmd.volcano demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m "not slow and not k8s and not frameworks"

test-slow: $(STAMP) $(BROWSER_STAMP)
	$(BIN)/python -m pytest -n 3 --dist loadfile -m "slow and not k8s and not frameworks" --timeout 900

# Kills a whole cluster 300 times, and a process with only the store 1,800 times; takes about half an hour.
test-long: $(STAMP)
	CLUSTER_KILLS=300 STORE_KILLS=1800 $(BIN)/python -m pytest -m slow --timeout 3600 tests/cmd/test_crashes.py tests/apiserver/storage/test_crash.py

test-k8s: $(STAMP)
	@$(BIN)/python -m tests.k8s.control_plane.build && $(BIN)/python -m pytest -m "k8s and not frameworks" --timeout 900 tests && \
		KUBECTL=$$($(BIN)/python -m tests.k8s.control_plane.build --path kubectl) \
		$(BIN)/python -m pytest -n 2 -m "not slow and not k8s and not frameworks" tests/kubectl || \
		{ code=$$?; [ $$code -eq 77 ] && echo "test-k8s: skipped, Go is not installed" || exit $$code; }

# Runs the examples of all frameworks, one at a time. Frameworks are installed into a cache first, which may take long; one
# that is not available on this host is skipped with the reason. FRAMEWORKS="spark ray" chooses some.
test-frameworks: $(STAMP)
	$(BIN)/python -m pytest -v -m frameworks --timeout 1800 --durations 0 --durations-min 5 -rs \
		$(or $(foreach name,$(FRAMEWORKS),tests/frameworks/test_$(subst -,_,$(name)).py),tests)

# The part of test-frameworks for every change: one example of each of these within 8 minutes. With an empty cache, all are
# installed beside the examples, and those that are not ready in time are skipped with the reason.
test-frameworks-ci: $(STAMP)
	FRAMEWORKS_BUDGET=480 $(BIN)/python -m pytest -v -m frameworks --timeout 480 --durations 0 --durations-min 1 -rs \
		$(wildcard $(foreach name,ray spark tensorflow argo,tests/frameworks/test_$(name).py))

# Runs the tests that failed in the last run of a suite again, one at a time, to find tests that fail only under load.
failed: $(STAMP)
	$(BIN)/python -m pytest -v --last-failed --last-failed-no-failures none --timeout 900

# The site goes to build/site. Strict: a broken link fails. Generated pages come from tools/docs.
docs: $(DOCS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	$(BIN)/python -m tools.docs.check_site build/site

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	$(BIN)/python -m bench

bench-k8s: $(STAMP)
	@$(BIN)/python -m tests.k8s.control_plane.build && $(BIN)/python -m bench kubernetes || \
		{ code=$$?; [ $$code -eq 77 ] && echo "bench-k8s: skipped, Go is not installed" || exit $$code; }

chart: $(STAMP)
	$(BIN)/python -m tools.package_chart dist/charts

installer: $(STAMP)
	$(BIN)/python -m tools.generate_installer

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .hypothesis

$(STAMP): pyproject.toml constraints.txt
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@echo "Installing volcano and its tools in $(VENV); the first time takes about a minute."
	@$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev,dashboard]'
	@echo "Installed."
	@touch $(STAMP)

# Drives an installed Chromium in the tests of the dashboard; they are skipped without one.
$(BROWSER_STAMP): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]'
	@touch $(BROWSER_STAMP)

$(DOCS_STAMP): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $(DOCS_STAMP)
