# microfs: `make demo` shows the main job, `make test` tests everything.
# All targets install what they need by apt when it is missing.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules
# Each step uses all cores by itself.
.NOTPARALLEL:
# A recipe is one script.
.ONESHELL:

CARGO ?= cargo
# Debian's own Python: the one that Debian's python3-zstandard belongs to.
PYTHON ?= /usr/bin/python3
TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

BUILD_PACKAGES := gcc libc6-dev
DEMO_PACKAGES := $(BUILD_PACKAGES) fuse3 mmdebstrap mount uidmap
TEST_PACKAGES := $(DEMO_PACKAGES) acl attr bubblewrap buildah charliecloud-runtime crun erofs-utils fuse-overlayfs hyperfine jq \
	libcap2-bin podman python3 python3-pip python3-venv python3-zstandard runc skopeo \
	squashfs-tools squashfuse strace tar time umoci zstd
BENCH_PACKAGES := $(DEMO_PACKAGES) attr erofs-utils hyperfine runc squashfs-tools squashfuse
# Measured too where Debian has them.
BENCH_EXTRAS := erofsfuse

# Where `make install` puts things.
PREFIX ?= /usr/local
DESTDIR ?=
BINDIR = $(DESTDIR)$(PREFIX)/bin
# mount(8) looks for its helpers in /sbin and /usr/sbin only.
SBINDIR = $(DESTDIR)/usr/sbin
MANDIR = $(DESTDIR)$(PREFIX)/share/man/man1
BASHDIR = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSHDIR = $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISHDIR = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d

# How long each fuzz target runs.
FUZZ_SECONDS ?= 60

# Further options of rofsbench, such as `--quick` or `--save testdata/bench`; see `rofsbench --help`.
BENCH_OPTIONS ?=

# Which of the hard inputs run, such as `--kind rootfs` or `--case 'sparse-*'`; all by default.
NASTY_OPTIONS ?=

.PHONY: help
help: ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

.PHONY: setup
setup: ## Install all Debian packages that tests and demo use
	@testdata/setup.sh $(TEST_PACKAGES)

.PHONY: setup-demo
setup-demo:
	@testdata/setup.sh $(DEMO_PACKAGES)

.PHONY: build
build: ## Build the program, optimised
	@testdata/setup.sh $(BUILD_PACKAGES)
	$(CARGO) build --locked --release

.PHONY: demo
demo: setup-demo build ## Build, check, mount and compare a Debian root filesystem, or ROOTFS=DIR
	MICROFS=$(TARGET_DIR)/release/microfs DEMO_DIR=$(TARGET_DIR)/demo testdata/demo.sh

.PHONY: test
test: setup test-rust test-reader test-nasty test-runtimes test-images test-kills check ## Run all tests and checks

.PHONY: test-rust
test-rust: setup
	$(CARGO) test --locked --workspace --no-fail-fast

.PHONY: test-reader
test-reader: setup
	$(CARGO) build --locked
	cd testdata/reader
	MICROFS_BIN=$(TARGET_DIR)/debug/microfs $(PYTHON) -B -m unittest test_reader test_rules test_cross test_stacks

# In namespaces of their own, so that no mount and no server outlives a failure.
.PHONY: test-nasty
test-nasty: setup
	$(CARGO) build --locked
	program=$(TARGET_DIR)/debug/microfs
	$(SUDO) unshare --mount --pid --fork --kill-child --mount-proc \
		$(PYTHON) -B testdata/nasty/check.py testdata/nasty/cases $(NASTY_OPTIONS) \
		--convert "$$program convert -q {oci_in}:{in_tag} {oci_out}:{tag}" \
		--convert-docker "$$program convert -q {archive} {oci_out}:{tag}" \
		--convert-rootfs "$$program build -q {rootfs} {oci_out}:{tag}" \
		--mount "$$program mount {oci_out} {tag} {mnt}" \
		--umount "$$program umount {mnt}" \
		--extract "$$program extract -q {oci_out} {tag} {out}"

# Makes namespaces of its own, too.
.PHONY: test-runtimes
test-runtimes: setup
	$(CARGO) build --locked
	made=$$(testdata/runtimes/rootfs.sh $(TARGET_DIR)/runtimes)
	$(SUDO) env PYTHON=$(PYTHON) testdata/runtimes/run.sh $(TARGET_DIR)/debug/microfs "$$made"

# In namespaces of their own, so that no mount and no process outlives a failure.
IMAGES = $(SUDO) env MICROFS_SEED="$${MICROFS_SEED:-}" MICROFS_KILLS="$${MICROFS_KILLS:-}" DEMO_MIRROR="$${DEMO_MIRROR:-}" \
	unshare --mount --pid --fork --kill-child --mount-proc $(PYTHON) -B

.PHONY: test-images
test-images: setup
	$(CARGO) build --locked
	$(IMAGES) testdata/images/compare.py $(TARGET_DIR)/debug/microfs $(TARGET_DIR)/images small

.PHONY: test-kills
test-kills: setup
	$(CARGO) build --locked
	$(IMAGES) testdata/images/kills.py $(TARGET_DIR)/debug/microfs $(TARGET_DIR)/images
	$(IMAGES) testdata/images/everycall.py $(TARGET_DIR)/debug/microfs $(TARGET_DIR)/images

.PHONY: test-images-long
test-images-long: setup
	$(CARGO) build --locked
	$(IMAGES) testdata/images/compare.py $(TARGET_DIR)/debug/microfs $(TARGET_DIR)/images large
	$(IMAGES) testdata/images/figures.py $(TARGET_DIR)/debug/microfs $(TARGET_DIR)/images
	export MICROFS_KILLS=$${MICROFS_KILLS:-100}
	$(IMAGES) testdata/images/kills.py $(TARGET_DIR)/debug/microfs $(TARGET_DIR)/images
	$(IMAGES) testdata/images/everycall.py --all $(TARGET_DIR)/debug/microfs $(TARGET_DIR)/images

.PHONY: test-long
test-long: setup test-runtimes test-images-long ## Run the tests that take longer: all sizes, many seeds, kills
	MICROFS_LONG=1 MICROFS_KILLS=400 $(CARGO) test --locked --workspace --no-fail-fast

.PHONY: test-seed
test-seed: setup ## Run the Rust tests with other random cases: those of SEED=N
	@test -n "$(SEED)" || { echo "which? make test-seed SEED=N" >&2; exit 2; }
	MICROFS_SEED=$(SEED) $(CARGO) test --locked --workspace --no-fail-fast

.PHONY: check
check: setup fmt clippy doc deps ## Check format, lints, documentation, dependency arrows

.PHONY: fmt
fmt:
	@$(CARGO) fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	$(CARGO) fmt --all --check

.PHONY: clippy
clippy:
	@$(CARGO) clippy --version >/dev/null 2>&1 || rustup component add clippy
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

.PHONY: doc
doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --lib

.PHONY: deps
deps:
	$(PYTHON) testdata/deps.py

.PHONY: bench
bench: build ## Measure reading beside all peers that Debian has, of a Debian tree or ROOTFS=DIR
	@extras=()
	for package in $(BENCH_EXTRAS); do
		if [[ -n $$(apt-cache madison "$$package" 2>/dev/null) ]]; then extras+=("$$package"); fi
	done
	testdata/setup.sh $(BENCH_PACKAGES) "$${extras[@]}"
	$(SUDO) $(TARGET_DIR)/release/rofsbench --work $(TARGET_DIR)/bench \
		$(if $(ROOTFS),--rootfs $(ROOTFS)) $(BENCH_OPTIONS)

# cargo-fuzz wants compiler options that stable compilers know, but hide.
.PHONY: fuzz
fuzz: setup ## Feed mutated archives and blobs to the library, FUZZ_SECONDS=60 each
	testdata/setup.sh g++
	$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-fuzz
	cd pkg
	for target in archive blob; do
		mkdir -p $(TARGET_DIR)/fuzz/$$target
		RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run --sanitizer none --target-dir $(TARGET_DIR)/fuzz/build \
			$$target $(TARGET_DIR)/fuzz/$$target -- \
			-max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=4096 -timeout=30 -max_len=65536 \
			-artifact_prefix=$(TARGET_DIR)/fuzz/$$target-
	done

.PHONY: install
install: ## Install below PREFIX (default /usr/local), DESTDIR before it
	program=$(TARGET_DIR)/release/microfs
	test -x "$$program" || { echo "run \`make build\` first" >&2; exit 1; }
	install -d $(BINDIR) $(SBINDIR) $(MANDIR) $(BASHDIR) $(ZSHDIR) $(FISHDIR)
	install -m 755 "$$program" $(BINDIR)/microfs
	ln -sf $(PREFIX)/bin/microfs $(SBINDIR)/mount.microfs
	ln -sf $(PREFIX)/bin/microfs $(SBINDIR)/mount.fuse.microfs
	"$$program" manual $(MANDIR)
	"$$program" completions bash >$(BASHDIR)/microfs
	"$$program" completions zsh >$(ZSHDIR)/_microfs
	"$$program" completions fish >$(FISHDIR)/microfs.fish

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(TARGET_DIR)
