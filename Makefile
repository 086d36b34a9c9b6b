# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The tests start hundreds of processes: without kept bytecode each would compile every module.
export PYTHONDONTWRITEBYTECODE :=

# Fixtures are shared within a file. tests/support/schedule.py gives the order of the files.
SPREAD := -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-fast test-slow sim trees trees-applied test-failpoints test-versions test-postgres test-reboot soak bench bench-quick bench-growth bench-soak lint format docs wheel wheelhouse clean

demo: $(STAMP)
	$(BIN)/python examples/demo/demo.py

test: $(STAMP)
	$(BIN)/python -m pytest $(SPREAD)

# Unit tests and recorded cases alone.
test-fast: $(STAMP)
	$(BIN)/python -m pytest $(SPREAD) tests/unit tests/wire tests/integration/cases

# Every failpoint by kill, error and sleep, in chains of three shapes.
test-failpoints: $(STAMP)
	$(BIN)/python -m pytest -n 4 -m failpoints tests/failpoints

# More simulated worlds than `make test` has: make sim SEEDS=10000 FROM=1301.
SEEDS ?= 1000
FROM ?= 1301
sim: $(STAMP)
	$(BIN)/python -m tests.sim --seeds $(SEEDS) --from $(FROM)

# Half an hour of random faults under load; SOAK="--minutes 5 --minions 20". With --damage, files
# of the daemons are damaged and the store is restored meanwhile:
# make soak SOAK="--minutes 10 --minions 10 --chains 45 --damage".
soak: $(STAMP)
	PYTHONPATH=examples/demo $(BIN)/python -m tests.soak $(SOAK)

# catena, Salt, Ansible, pyinfra and the bare machine on the same work: docs/benchmarks.md.
# BENCH="--rows 'ping*' --salt /opt/salt/bin".
bench: $(STAMP)
	$(BIN)/python -m bench --page docs/benchmarks.md $(BENCH)

bench-quick: $(STAMP)
	$(BIN)/python -m bench --quick $(BENCH)

# How costs grow with minions, jobs, events, chains, states and files.
bench-growth: $(STAMP)
	$(BIN)/python -m bench.growth $(BENCH)

# Half an hour of a steady load from 1 000 simulated minions: the master must not grow.
bench-soak: $(STAMP)
	$(BIN)/python -m bench.soak $(BENCH)

# Older agents with this master, and an older master with agents of this version.
test-versions: $(STAMP)
	$(BIN)/python -m pytest -m versions tests/acceptance/test_old_version.py

# The master's tests on PostgreSQL; the few that damage or copy a file of SQLite are skipped.
test-postgres: $(STAMP)
	CATENA_TEST_DATABASE=postgresql $(BIN)/python -m pytest -n 2 --dist loadfile tests/integration/master

# Hosts that really boot: Debian 11, 12 and 13 with systemd, and bare PID namespaces. Needs root.
test-reboot: $(STAMP)
	$(BIN)/python -m pytest -m reboot tests/reboot

# What takes minutes beside `make test`: whole chains over deadlines, every case over SSH.
test-slow: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m slow tests/acceptance tests/integration

# Twenty thousand random SLS trees more than `make test` tries.
trees: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m slow tests/unit/states/compiler/test_random_trees.py

# Applies the formulas in a folder to booted Debian systems: make trees-applied FORMULAS=~/formulas
trees-applied: $(STAMP)
	$(BIN)/python -m tests.trees.apply "$(FORMULAS)" $(NAMES)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# Through a missing link mypy would check a tenth of the code and report no errors.
	@count=$$(find -L catena tests examples/demo bench -name '*.py' -not -path 'tests/cases/*' | wc -l); \
	    said=$$($(BIN)/mypy); echo "$$said"; \
	    case "$$said" in *"no issues found in $$count source files"*) ;; *) exit 1;; esac
	$(BIN)/lint-imports
	$(BIN)/vermin --quiet --no-tips --violations --target=3.9- --eval-annotations \
	    core transport renderers fileserver modules states runtime pillar client minion cli
	$(BIN)/python -m tests.support.subjects

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The pages of docs/reference that are made from the code.
docs: $(STAMP)
	$(BIN)/python -m tests.wire.wire_reference
	$(BIN)/python -m tests.unit.reference_pages

# Needs neither .venv/ nor the development tools.
wheel:
	@rm -rf build
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/catena-*.whl

# Everything that hosts without a package index need, for this machine's platform and the given
# versions of Python: make wheelhouse PYTHONS="3.9 3.11 3.13".
PYTHONS ?= $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
wheelhouse: wheel
	@mkdir -p dist/wheelhouse
	cp "$$(ls -t dist/catena-*.whl | head -1)" dist/wheelhouse/
	@for version in $(PYTHONS); do \
	    $(PYTHON) -m pip download --quiet --only-binary=:all: --python-version $$version \
	        --dest dist/wheelhouse "$$(ls -t dist/catena-*.whl | head -1)[master]" || exit 1; \
	done
	@echo "copy dist/wheelhouse to a host, then there: pip install --no-index --find-links wheelhouse catena"

# Debian's python3 without python3-venv has no ensurepip: the environment is then made bare and
# filled by the pip outside it.
$(STAMP): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "catena's master and its tests need Python 3.11 or newer"; exit 1; }
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then \
	    $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet --upgrade pip && \
	    $(BIN)/python -m pip install --quiet --editable '.[master,test,dev]'; \
	else \
	    $(PYTHON) -m venv --without-pip $(VENV) && \
	    $(PYTHON) -m pip --python $(BIN)/python install --quiet --editable '.[master,test,dev]'; \
	fi
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
