#!/bin/bash
# Compares microfs with squashfs through FUSE: the same tree, the same codec, level
# and block size, both with as many threads as there are cores.
#
# Rounds are paired: every round measures both, the order changing from round to
# round. Each read is the first one of a fresh mount, so the kernel has cached
# nothing of the mounted files; the image itself is in the page cache. The table
# has the median of the rounds, with the fastest and the slowest.
#
#   MICROFS, DEMO_DIR, ROOTFS    as for demo.sh
#   ROUNDS    number of rounds (default 5)
#   LEVEL     zstd level (default 9)
#   BLOCK     block size (default 128K)
set -euo pipefail
source "$(dirname "$0")/rootfs.sh"

make_rootfs_archive
enter_user_namespace "$0" "$@"
rounds=${ROUNDS:-5} level=${LEVEL:-9} block=${BLOCK:-128K}

work=$(mktemp -d "$DEMO_DIR/bench.XXXXXX")
clean() {
	status=$?
	trap - EXIT
	if mountpoint -q "$work/mnt"; then
		umount "$work/mnt" || umount -l "$work/mnt" || status=1
	fi
	rm -rf "$work"
	exit "$status"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP
unpack_rootfs "$work"
mkdir "$work/mnt"

microfs_build() { rm -rf "$work/image" && "$MICROFS" build -q -b "$block" -c "zstd:$level" "$ROOTFS" "$work/image:t"; }
squashfs_build() { mksquashfs "$ROOTFS" "$work/image.squashfs" -noappend -quiet -no-progress -comp zstd -Xcompression-level "$level" -b "$block" >"$work/log" 2>&1; }
microfs_mount() { "$MICROFS" mount "$work/image:t" "$work/mnt"; }
squashfs_mount() { squashfuse_ll "$work/image.squashfs" "$work/mnt"; }
list() { ls -lR "$work/mnt" >"$work/log"; }
stat_all() { find "$work/mnt" -printf '%i %s\n' >"$work/log"; }
# One process, so that the time is that of reading and not of starting programs.
read_all() { tar --create --directory "$work/mnt" . | cat >"$work/null"; }
read_two() { find "$work/mnt" -type f -print0 | xargs -0 -n 500 -P 2 cat >"$work/null"; }
ln -s /dev/null "$work/null"

# timed COMMAND...: prints how many seconds it took.
timed() {
	local from=$EPOCHREALTIME
	"$@"
	awk -v from="$from" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", to - from }'
}

# measure SIDE TEST
measure() {
	if [[ $2 == build ]]; then
		timed "$1_build" >>"$work/$1.$2"
		return
	fi
	"$1_mount"
	timed "$2" >>"$work/$1.$2"
	umount "$work/mnt"
}

# Warms the page cache with source and images, and is not counted.
tar --create --directory "$ROOTFS" . | cat >"$work/null"
microfs_build
squashfs_build
tests=(build list stat_all read_all read_two)
for ((round = 1; round <= rounds; round++)); do
	echo "bench: round $round of $rounds"
	sides=(microfs squashfs)
	((round % 2)) || sides=(squashfs microfs)
	for test in "${tests[@]}"; do
		for side in "${sides[@]}"; do
			measure "$side" "$test"
		done
	done
done

summary() { sort -n "$1" | awk '{ v[NR] = $1 } END { printf "%.2f %.2f %.2f", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[1], v[NR] }'; }
row() {
	local label=$1 test=$2 a b
	a=$(summary "$work/microfs.$test")
	b=$(summary "$work/squashfs.$test")
	# shellcheck disable=SC2086 # three numbers
	printf '%-34s %7s (%s to %s) %7s (%s to %s) %6s\n' "$label" $a $b \
		"$(awk -v a="${a%% *}" -v b="${b%% *}" 'BEGIN { if (a > 0) printf "%.2f", b / a; else printf "-" }')"
}
bytes() { du -sb "$1" | cut -f1; }

echo
"$MICROFS" --version
mksquashfs -version | sed -n 1p
{ squashfuse_ll --help 2>&1 || true; } | sed -n 1p
echo "zstd level $level, blocks of $block, $(nproc) cores, $(bytes "$ROOTFS") bytes in $(find "$ROOTFS" | wc -l) files"
echo
printf '%-34s %-24s %-24s %6s\n' "seconds, median (fastest to slowest)" "microfs" "squashfs" "ratio"
row "build" build
row "ls -lR, fresh mount" list
row "find with stat, fresh mount" stat_all
row "tar of all, fresh mount" read_all
row "cat of all, 2 at once, fresh mount" read_two
printf '%-34s %24s %24s\n' "image bytes" "$(bytes "$work/image")" "$(bytes "$work/image.squashfs")"
