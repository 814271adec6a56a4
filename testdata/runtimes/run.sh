#!/bin/bash
# Runs the tests of this folder, as root:
#
#   run.sh PROGRAM MADE [WORDS...]
#
# PROGRAM is microfs, MADE what rootfs.sh printed, WORDS are for unittest, such
# as `test_root.Bundles`; all tests by default. PYTHON is the interpreter.
#
# All is done in a mount and a process namespace of its own and on a tmpfs there,
# so that no mount, process or file outlives it, whatever ends it.
set -euo pipefail

if [[ ${1:-} != --inside ]]; then
	here=$(cd "$(dirname "$0")" && pwd)
	program=$(realpath "$1") made=$(realpath -s "$2")
	shift 2
	work=$(mktemp -d /var/tmp/microfs-runtimes.XXXXXX)
	name=${work##*/}
	child=
	clean() {
		status=$?
		trap - EXIT
		[[ -z $child ]] || kill -KILL "$child" 2>/dev/null || true
		[[ -z $child ]] || wait "$child" 2>/dev/null || true
		# Control groups belong to no namespace; these are empty now.
		for _ in {1..50}; do
			find /sys/fs/cgroup -depth -type d -path "*/$name*" -exec rmdir {} + 2>/dev/null && break
			sleep 0.1
		done
		rmdir "$work"
		exit "$status"
	}
	trap clean EXIT
	trap 'exit 130' INT TERM HUP
	cd "$here"
	path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$made.tools/usr/bin
	env -i PATH="$path" LANG=C.UTF-8 HOME=/root \
		PYTHON="${PYTHON:-/usr/bin/python3}" MICROFS_BIN="$program" MADE="$made" WORK="$work" \
		setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child --mount-proc \
		"$here/run.sh" --inside "$@" </dev/null &
	child=$!
	# Interrupted by the signals above, which unshare itself passes over.
	wait "$child" && status=0 || status=$?
	child=
	exit "$status"
fi
shift

# As on other machines: unmounting reaches the namespaces that were made of this one.
mount --make-rshared /
mount -t tmpfs -o mode=0755,size=4g microfs-runtimes "$WORK"
# The runtimes keep their state there.
mount -t tmpfs -o mode=0755 run /run
mount -t tmpfs -o mode=1777 shm /dev/shm
# A version 2 hierarchy beside those of version 1: crun takes it for its own.
if mountpoint -q /sys/fs/cgroup/unified; then
	mount -t tmpfs -o mode=0755 unified /sys/fs/cgroup/unified
fi
[[ $# -gt 0 ]] || set -- test_root test_users test_copies
exec "$PYTHON" -B -m unittest --verbose "$@"
