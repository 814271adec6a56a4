#!/bin/bash
# Installs the Debian packages named as arguments that are not installed yet, and
# checks for what no package brings: Rust and /dev/fuse. Does nothing, at once,
# when all is there. Needs root or sudo only to install.
set -euo pipefail

missing=()
for package in "$@"; do
	status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
	[[ $status == installed ]] || missing+=("$package")
done
if [[ ${#missing[@]} -gt 0 ]]; then
	echo "setup: installing ${missing[*]}"
	sudo=()
	if [[ $(id -u) != 0 ]]; then
		command -v sudo >/dev/null || {
			echo "setup: neither root nor sudo: as root, apt-get install ${missing[*]}" >&2
			exit 1
		}
		sudo=(sudo)
	fi
	install=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}")
	# Package lists that are missing or old are brought up to date, once.
	"${install[@]}" || { "${sudo[@]}" apt-get update -q && "${install[@]}"; }
fi

want=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
command -v cargo >/dev/null || {
	echo "setup: cargo is missing: Rust $want or later is needed" >&2
	exit 1
}
have=$(rustc --version | cut -d' ' -f2)
[[ $(printf '%s\n' "$want" "$have" | sort -V | head -n1) == "$want" ]] || {
	echo "setup: rustc $have is too old: Rust $want or later is needed" >&2
	exit 1
}
[[ -c /dev/fuse ]] || {
	echo "setup: /dev/fuse is missing: load the kernel module fuse, or give the container that device" >&2
	exit 1
}
