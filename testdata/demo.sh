#!/bin/bash
# The main job, shown: builds a root filesystem into an image, checks and mounts
# it, and compares image and mount with the source.
#
#   MICROFS          the program
#   DEMO_DIR         where to work; a Debian root filesystem is kept there
#   ROOTFS           build this directory instead (default: make a Debian one)
#   BUILD_OPTIONS    options for `microfs build`, in words
#   DEMO_SUITE, DEMO_PACKAGES, DEMO_MIRROR    what the Debian one is made of
#
# An ordinary user does the same in a user namespace, where the files of a root
# filesystem can have their owners.
set -euo pipefail
source "$(dirname "$0")/rootfs.sh"

make_rootfs_archive
enter_user_namespace "$0" "$@"

work=$(mktemp -d "$DEMO_DIR/run.XXXXXX")
clean() {
	status=$?
	trap - EXIT
	if mountpoint -q "$work/mnt"; then
		"$MICROFS" umount "$work/mnt" || umount -l "$work/mnt" || status=1
	fi
	rm -rf "$work"
	exit "$status"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP

unpack_rootfs "$work"
image=$work/image:demo
mkdir "$work/mnt"

rows=()
# step WHAT COMMAND...: runs the command and notes how long it took.
step() {
	local what=$1 from=$EPOCHREALTIME
	shift
	echo "demo: $what"
	"$@"
	rows+=("$what|$(awk -v from="$from" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.2f s", to - from }')")
}

# A digest of all that GNU tar knows of a tree: names, owners, modes, times,
# links, devices, extended attributes, content. Knows nothing of microfs.
tar_digest() {
	tar --create --directory "$1" --sort=name --numeric-owner --xattrs --xattrs-include='*' --acls \
		--format=posix --pax-option=delete=atime,delete=ctime . | sha256sum
}
same_archive() {
	local source mount
	source=$(tar_digest "$ROOTFS")
	mount=$(tar_digest "$work/mnt")
	[[ $source == "$mount" ]] || {
		echo "demo: GNU tar makes different archives of source and mount" >&2
		return 1
	}
}

# shellcheck disable=SC2086 # options are words
step "build" "$MICROFS" build ${BUILD_OPTIONS:-} "$ROOTFS" "$image"
step "check every digest and rule" "$MICROFS" check "$image"
step "compare image and source" "$MICROFS" diff "$image" "$ROOTFS"
step "mount" "$MICROFS" mount "$image" "$work/mnt"
step "compare image and mount" "$MICROFS" diff "$image" "$work/mnt"
step "GNU tar of source and of mount" same_archive
if touch "$work/mnt/written" 2>/dev/null; then
	echo "demo: the mount can be written to" >&2
	exit 1
fi
step "unmount" "$MICROFS" umount "$work/mnt"

"$MICROFS" inspect "$image"
echo
printf '%-36s %10s\n' \
	"source" "$(du -sh --apparent-size "$ROOTFS" | cut -f1)" \
	"image" "$(du -sh --apparent-size "$work/image" | cut -f1)"
for row in "${rows[@]}"; do
	printf '%-36s %10s\n' "${row%|*}" "${row#*|}"
done
echo "demo: the mount is the source, exactly"
