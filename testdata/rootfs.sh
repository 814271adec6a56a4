# Functions that demo.sh and bench.sh share: a root filesystem to work on.
# Reads DEMO_DIR and ROOTFS, and DEMO_SUITE, DEMO_PACKAGES and DEMO_MIRROR.
# shellcheck shell=bash

# Makes the archive of a Debian root filesystem, once.
make_rootfs_archive() {
	mkdir -p "$DEMO_DIR"
	[[ -z ${ROOTFS:-} ]] || return 0
	archive=$DEMO_DIR/rootfs.tar
	[[ ! -e $archive ]] || return 0
	local suite=${DEMO_SUITE:-}
	# shellcheck source=/dev/null
	[[ -n $suite ]] || suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
	echo "making a root filesystem of Debian $suite"
	rm -f "$archive.tmp"
	mmdebstrap --quiet --format=tar --variant=minbase --include="${DEMO_PACKAGES:-gcc,python3,perl}" \
		"$suite" "$archive.tmp" ${DEMO_MIRROR:+"$DEMO_MIRROR"}
	mv "$archive.tmp" "$archive"
}

# Runs the script again as root of a user namespace, when the root filesystem is
# ours to unpack and the caller is an ordinary user.
enter_user_namespace() {
	if [[ -z ${ROOTFS:-} && $(id -u) != 0 ]]; then
		exec unshare --map-root-user --map-auto --mount "$@"
	fi
}

# Unpacks the archive below $1 and sets ROOTFS, unless that is set.
unpack_rootfs() {
	[[ -z ${ROOTFS:-} ]] || return 0
	ROOTFS=$1/rootfs
	mkdir "$ROOTFS"
	local options=()
	# A user namespace can own files, but no device nodes.
	[[ $(</proc/self/uid_map) =~ ^\ +0\ +0\ +4294967295 ]] || options=(--exclude='./dev/*')
	tar --extract --file "$archive" --directory "$ROOTFS" --numeric-owner --preserve-permissions \
		--xattrs --xattrs-include='*' "${options[@]}"
}
