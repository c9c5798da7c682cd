# One command per wish; `make help` lists them.
PYTHON ?= python3
ARGS ?=
VENV := .venv
PY := $(VENV)/bin/python
# hundreds of processes import the same files: what Python compiled is kept
unexport PYTHONDONTWRITEBYTECODE
# cells and tests find the programs of .venv, torchrun for one
RUN := PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PY)
# JupyterLab would ask whether it may fetch news: a default of ours, for this run alone
NO_NEWS := JUPYTER_CONFIG_PATH="$(CURDIR)/course_lib/workspace/jupyter$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}"
CPU_WHEELS := https://download.pytorch.org/whl/cpu
# where the course lives: the book links to it for what it does not hold; put yours here
REPOSITORY ?= https://example.org/course
# most tests wait for something: one worker more than there are cores
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN || echo 2) + 1)
# a worker that crashes ends the run, which names its test: xdist loses count otherwise
PYTEST = $(RUN) -m pytest -n $(JOBS) --dist loadscope --no-loadscope-reorder \
    --max-worker-restart=0
# what names its version stands last in a wheel: an unpacking that was killed has none
HAS_TORCH := $(PY) -c 'import importlib.metadata as m; m.version("torch")' 2>/dev/null

stop = { echo "$(1)" >&2; exit 1; }
NO_PYTHON = There is no $(PYTHON) here: install Python 3.10 or newer, or name yours: \
    PYTHON=/path/to/python make $(MAKECMDGOALS)
OLD_PYTHON = $(PYTHON) is $$($(PYTHON) -V 2>&1), the course needs 3.10 or newer: \
    install one and name it, as in PYTHON=python3.12 make $(MAKECMDGOALS)
VENV_PACKAGE = $$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
NO_VENV = $(PYTHON) cannot make virtual environments. On Debian and Ubuntu: \
    sudo apt-get install $(VENV_PACKAGE), then make $(MAKECMDGOALS) again.
NO_PIP = pip could not install the packages; its own words are above. Without a \
    network or behind a proxy: connect, or set https_proxy, then run \
    make $(MAKECMDGOALS) again. What is downloaded is kept.
OTHER = .venv holds $$($(PY) -V), not $(PYTHON): run 'rm -rf .venv' first.
# TORCH=keep: the torch that PYTHON has, found by a path file; .kept is what pip is held to
ifneq ($(TORCH),)
ifneq ($(TORCH),keep)
$(error TORCH=$(TORCH): the only choice is TORCH=keep, the torch that PYTHON has)
endif
endif
KEEP := $(if $(TORCH)$(wildcard $(VENV)/.kept),$(VENV)/.kept)
CONSTRAINTS := $(or $(KEEP),constraints.txt)
WITHOUT_TORCH := sed -E '/^(torch|setuptools)==/d' constraints.txt
WHERE_TORCH := 'import importlib.util as u, os; \
    print(os.path.dirname(os.path.dirname(u.find_spec("torch").origin)))'
WHICH_TORCH := 'import importlib.metadata as m; print(m.version("torch").partition("+")[0])'
RANGE = $$(sed -n 's/^ *"\(torch[<>=][^"]*\)",$$/\1/p' pyproject.toml)
NO_KEPT = TORCH=keep: $(PYTHON) has no torch. Name the Python that has it, \
    as in PYTHON=/path/to/python make $(MAKECMDGOALS) TORCH=keep
NOT_KEPT = .venv has a torch of its own: run 'rm -rf .venv' first.
BAD_KEPT = pip could not install the other packages beside torch \
    $$(sed -n 's/^torch==//p' $(VENV)/.kept), which TORCH=keep keeps; its own words are \
    above. The course needs $(RANGE).
# the course as it is, with another torch
TRY = $(VENV)/try-torch-$(VERSION)
TRIED = PATH="$(CURDIR)/$(TRY)/bin:$$PATH" $(TRY)/bin/python
NO_VERSION = Which torch? Name a version: make try-torch VERSION=2.12.0
NO_TORCH = pip could not install torch $(VERSION) beside the other packages; its own \
    words are above. Versions that there are: $(PY) -m pip index versions torch
# Jupyter Book, beside the packages of the course
BOOK = $(VENV)/book
OLD_FOR_BOOK = $(VENV) holds $$($(PY) -V), the book needs 3.11 or newer: run 'rm -rf \
    $(VENV)', then PYTHON=python3.12 make book
HINT = No nvidia-smi here: 'make $(MAKECMDGOALS) CPU=1' spares several GB of CUDA.

.PHONY: help setup lab test proof grade bench operators nestings pages terms origins shots mistakes mutants nbgrader try-torch versions gpu chosen FORCE
.DEFAULT_GOAL := help

help: ## show this list
	@echo "usage: make COMMAND"; echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1	\2/p' Makefile | expand -t 12
	@echo; echo "  CPU=1              with any of them: torch without CUDA, a much smaller download"
	@echo "  TORCH=keep         the torch that your Python has already; none is downloaded"
	@echo "  PYTHON=python3.12  the Python that makes .venv; 3.10 or newer"

setup: $(VENV)/.setup ## make .venv and install the course into it
	@echo "The course is installed in $(VENV). Next: make lab"

lab: $(VENV)/.setup ## open work/, your own copy of the lessons, in JupyterLab; on a server: make lab ARGS=--no-browser
	@$(RUN) -m course_lib work "$(CURDIR)/work"
	$(NO_NEWS) $(RUN) -m jupyterlab $(if $(filter 0,$(shell id -u)),--allow-root) \
	    --ServerApp.root_dir="$(CURDIR)/work" $(ARGS) work/notebooks/00_start_here.ipynb

test: $(VENV)/.test ## does the course work here? 5 to 10 minutes; one test: make test ARGS="-k NAME"
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PYTEST) --run test $(ARGS)

proof: $(VENV)/.test ## all the other tests, for those who change the course: half an hour
	$(PYTEST) --run proof $(ARGS)

grade: $(VENV)/.grade ## grade your exercises in work/; what was handed in: make grade ARGS="FOLDER -j 4 --html pages"
	$(RUN) -m course_lib grade $(ARGS)

bench: $(VENV)/.test $(VENV)/.grade $(VENV)/.nbgrader ## measure against the alternatives; one of them: make bench ARGS=grading
	$(RUN) -m benchmarks $(ARGS)

operators: $(VENV)/.test ## compare all of PyTorch's operators on a virtual GPU with the CPU, and keep the table
	$(RUN) -m tests.operators --save

nestings: $(VENV)/.test ## the same of their derivatives and batches, two deep: jvp, vjp, vmap
	$(RUN) -m tests.nestings --save

pages: $(VENV)/.test ## write what pages have from elsewhere: numbers, tables, pictures
	$(RUN) -m tests.pages

terms: $(VENV)/.test ## where lessons use and explain the words of docs/glossary.md
	$(RUN) -m tests.terms

origins: $(VENV)/.test ## the numbers in lessons' texts that no cell near by has, and where they come from
	$(RUN) -m tests.origins

shots: $(VENV)/.test ## pictures of all lessons in both themes, in shots/; of some: make shots ARGS="01 06b"
	$(RUN) -m tests.shots $(ARGS)

mistakes: $(VENV)/.test ## keep the fingerprints of known mistakes; of some: make mistakes ARGS="4.1 4.2"
	$(RUN) -m tests.mistakes $(ARGS)

mutants: $(VENV)/.test ## is each deliberate mistake caught? one of them: make mutants ARGS=NAME
	$(RUN) -m tests.mutants $(ARGS)

nbgrader: $(VENV)/.grade $(VENV)/.nbgrader ## do our points agree with its? one stage: make nbgrader ARGS="-k 05"
	$(RUN) -m tests.agreement $(ARGS)

try-torch: $(VENV)/.made ## what breaks with another torch? make try-torch VERSION=2.12.0
	@[ -n "$(VERSION)" ] || $(call stop,$(NO_VERSION))
	@$(MAKE) -s --no-print-directory $(TRY)/.try
	@$(TRIED) -m tests.test_torch_private; probes=$$?; \
	    $(TRIED) -m pytest -n $(JOBS) --dist loadscope --run test \
	    --ignore tests/test_setup.py --ignore tests/test_versions.py $(ARGS) && exit $$probes

versions: $(VENV)/.test ## probes and make test with the oldest and the newest torch, kept in docs/torch_private.md
	$(RUN) -m tests.versions $(ARGS)

# without .venv too, on a machine that is lent: PYTHON=python3 make gpu
GPU_PY = $(if $(filter file,$(origin PYTHON)),$(if $(wildcard $(PY)),$(RUN),$(PYTHON)),$(PYTHON))
gpu: ## all that needs a GPU, in at most 8 minutes, into gpu/; without .venv: PYTHON=python3 make gpu
	@$(GPU_PY) -m benchmarks.gpu $(ARGS)

.PHONY: book
book: $(VENV)/.test $(BOOK)/.book ## make the course as a static book, in _book/; make book REPOSITORY=https://ADDRESS
	@$(RUN) -m docs.book --repository "$(REPOSITORY)" \
	    --jupyter-book $(BOOK)/bin/jupyter-book
	@echo "Reading it in Chromium, without a network …"
	@$(RUN) -m pytest -q -n $(JOBS) --dist load tests/built_book.py $(ARGS)

# a stamp is older than what it stands for: install again
$(VENV)/.test: EXTRA := [test]
$(VENV)/.grade: EXTRA := [grade]
$(VENV)/.setup $(VENV)/.test $(VENV)/.grade: $(VENV)/.made $(KEEP) pyproject.toml constraints.txt
ifeq ($(CPU),1)
# torch alone: that index lacks the exact versions of everything else
	@$(HAS_TORCH) || $(PY) -m pip install --no-deps -c $(CONSTRAINTS) \
	    --index-url $(CPU_WHEELS) torch || $(call stop,$(NO_PIP))
else
	@[ "$$(uname)" != Linux ] || command -v nvidia-smi >/dev/null || $(HAS_TORCH) || \
	    echo "$(HINT)"
endif
	@$(PY) -m pip install -c $(CONSTRAINTS) -e ".$(EXTRA)" || \
	    $(call stop,$(if $(KEEP),$(BAD_KEPT),$(NO_PIP)))
	@touch $@

# beside the other packages of the Python that has it; torchrun for the Python of .venv
$(VENV)/.kept: constraints.txt | $(VENV)/.made
	@where=$$($(PY) -c $(WHERE_TORCH) 2>/dev/null || $(PYTHON) -c $(WHERE_TORCH) 2>/dev/null) || \
	    $(call stop,$(NO_KEPT)); \
	    echo "$$where" > "$$($(PY) -c 'import site; print(site.getsitepackages()[0])')/kept.pth"
	@printf '#!%s\nfrom torch.distributed.run import main\n\nmain()\n' "$(CURDIR)/$(PY)" \
	    > $(VENV)/bin/torchrun && chmod +x $(VENV)/bin/torchrun
	@version=$$($(PY) -c $(WHICH_TORCH)) && $(WITHOUT_TORCH) > $@ && \
	    echo "torch==$$version" >> $@ && echo "keeping torch $$version"

# in a folder of its own, so that .venv keeps the versions that were tested
$(VENV)/.nbgrader: benchmarks/nbgrader.txt | $(VENV)/.made
	@rm -rf $(VENV)/nbgrader
	@$(PY) -m pip install --no-deps --target $(VENV)/nbgrader -r $< || \
	    $(call stop,$(NO_PIP))
	@touch $@

# torch and setuptools, which torch bounds, in versions of their own
$(TRY)/.try: pyproject.toml constraints.txt | $(VENV)/.made
	@$(PY) -m venv --clear $(TRY)
	@$(WITHOUT_TORCH) > $(TRY)/constraints.txt
ifeq ($(CPU),1)
	@$(TRY)/bin/python -m pip install --no-deps --index-url $(CPU_WHEELS) \
	    torch==$(VERSION) || $(call stop,$(NO_TORCH))
endif
	@$(TRY)/bin/python -m pip install torch==$(VERSION) \
	    'setuptools>=77' -r $(TRY)/constraints.txt || \
	    $(call stop,$(NO_TORCH))
	@$(TRY)/bin/python -m pip install --no-deps -e . || $(call stop,$(NO_PIP))
	@touch $@

# in an environment of its own: what it brings would change versions that were tested
$(BOOK)/.book: docs/book/requirements.txt docs/book/constraints.txt | $(VENV)/.made
	@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    $(call stop,$(OLD_FOR_BOOK))
	@echo "installing Jupyter Book into $(BOOK)"
	@$(PY) -m venv --clear $(BOOK)
	@$(BOOK)/bin/python -m pip install -q --disable-pip-version-check \
	    -c docs/book/constraints.txt -r $< || $(call stop,$(NO_PIP))
	@touch $@

# the stamp names its folder: a .venv that was moved, or whose Python is gone, is dead
ifneq ($(shell [ -x $(PY) ] && cat $(VENV)/.made 2>/dev/null),$(CURDIR))
$(VENV)/.made: FORCE
endif
$(VENV)/.made: | chosen
	@command -v $(PYTHON) >/dev/null || $(call stop,$(NO_PYTHON))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    $(call stop,$(OLD_PYTHON))
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(call stop,$(NO_VENV))
	@echo "making $(VENV) with $$($(PYTHON) -V)"
	@$(PYTHON) -m venv $$([ -x $(PY) ] && [ ! -e $@ ] || echo --clear) $(VENV)
	@echo "$(CURDIR)" > $@

# a Python named now must be that of the .venv which is there
chosen:
ifneq ($(origin PYTHON),file)
	@[ ! -x $(PY) ] || [ "$$($(PYTHON) -V 2>&1)" = "$$($(PY) -V)" ] || \
	    $(call stop,$(OTHER))
endif
ifeq ($(TORCH),keep)
	@[ ! -x $(PY) ] || [ -e $(VENV)/.kept ] || ! $(HAS_TORCH) || $(call stop,$(NOT_KEPT))
endif
