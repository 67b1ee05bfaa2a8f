.PHONY: demo test test-long lint bench docs lock clean

demo: .venv/.ready
	@.venv/bin/overstory demo

test: lint
	.venv/bin/pytest -n auto --dist worksteal

# Ten thousand examples for every law; about forty minutes.
test-long: lint
	.venv/bin/pytest -n auto --dist worksteal --hypothesis-profile=long

lint: .venv/.ready
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

bench: .venv/.ready
	.venv/bin/python -m benchmarks

# All documents as a site with search, in site/; it needs no network.
docs: .venv/.ready
	@.venv/bin/python tools/docs.py site

# After a change of dependencies in pyproject.toml. Needs uv.
lock:
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
	    --generate-hashes --no-header --no-annotate --upgrade --output-file requirements.lock

clean:
	rm -rf .venv site .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Also if the environment was moved or copied, or its Python has gone: .ready says where it was made.
ifneq ($(shell { .venv/bin/python -c 'import pip' && cat .venv/.ready; } 2>/dev/null),$(CURDIR))
.PHONY: .venv/.ready
endif
.venv/.ready: requirements.lock pyproject.toml tools/setup
	@tools/setup
