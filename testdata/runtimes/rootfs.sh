#!/bin/bash
# Makes what the tests of the runtimes work on, once, in DIR: a small Debian
# root filesystem, DIR/HASH.tar, packages to install in it, DIR/HASH.debs/, and
# programs for this system, DIR/HASH.tools/. Prints the path without the ending.
# HASH is of this script: when it asks for something else, that is made anew.
#
#   rootfs.sh DIR
#
# Root is not needed. DEMO_SUITE and DEMO_MIRROR are as in demo.sh.
set -euo pipefail

dir=$1
suite=${DEMO_SUITE:-}
# shellcheck source=/dev/null
[[ -n $suite ]] || suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
hash=$({ cat "$0"; echo "$suite"; } | sha256sum | cut -c1-16)
made=$dir/$hash
# To be installed (new), and installed again over what is there (hard links, maintainer scripts).
packages=(hello perl-base)
# Not installed in this system, where it would listen to the network from then on.
tools=(docker-registry)

if [[ ! -e $made.tar ]]; then
	echo "making a small root filesystem of Debian $suite" >&2
	mkdir -p "$dir"
	rm -rf "${dir:?}"/*
	mkdir "$made.debs"
	download="apt-get -qq -o APT::Sandbox::User=root download"
	# shellcheck disable=SC2016 # mmdebstrap's shells expand it
	# The downloads are made in the new system: its versions, not this system's.
	mmdebstrap --quiet --format=tar --variant=apt --include=python3 \
		--dpkgopt=force-unsafe-io \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--customize-hook='mkdir -m 777 "$1/debs"' \
		--customize-hook="chroot \"\$1\" sh -c 'cd /debs && $download ${packages[*]} ${tools[*]}'" \
		--customize-hook="sync-out /debs '$made.debs'" \
		--customize-hook='rm -r "$1/debs"' \
		"$suite" "$made.tar.new" ${DEMO_MIRROR:+"$DEMO_MIRROR"} >&2
	chmod go-w "$made.debs"
	for package in "${tools[@]}"; do
		dpkg-deb --extract "$made.debs/${package}"_*.deb "$made.tools"
		rm "$made.debs/${package}"_*.deb
	done
	for package in "${packages[@]}"; do
		ls "$made.debs/${package}"_*.deb >/dev/null
	done
	mv "$made.tar.new" "$made.tar"
fi
echo "$made"
