#!/bin/sh
# Runs in a container: `inside.sh first WORDS` uses and changes the system,
# `inside.sh later WORDS` finds the changes, and `inside.sh look WORDS` changes
# nothing. Prints facts, one a line; what the tools say goes to standard error.
#
# WORDS say what there is: `users`, ids for more users than root; `setuid`,
# programs may be setuid and have capabilities.
set -eu
what=$1
words=" $* "
has() { case $words in *" $1 "*) ;; *) return 1 ;; esac; }
export DEBIAN_FRONTEND=noninteractive
nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"; }
apt() {
	# Without ids for it, apt cannot be another user for its downloads.
	if has users; then set -- -o APT::Sandbox::User=_apt "$@"; else set -- -o APT::Sandbox::User=root "$@"; fi
	apt-get -o Dpkg::Use-Pty=0 -y -qq "$@" >&2
}
# By the checksums that packages bring along: all files, of those that were
# left out when the system was made none.
verify() {
	wrong=$(dpkg --verify | grep -v ' /usr/share/\(doc\|locale\|man\)/' || true)
	[ -z "$wrong" ] || { echo "damaged: $wrong"; exit 1; }
	echo "packages intact"
}
python() {
	python3 -c '
import bz2, ctypes, decimal, email, hashlib, json, lzma, multiprocessing, os, sqlite3, ssl, subprocess, zlib
db = sqlite3.connect("/tmp/python.db" if os.access("/tmp", os.W_OK) else ":memory:")
db.execute("create table if not exists t (n integer)")
db.executemany("insert into t values (?)", [(n,) for n in range(1000)])
db.commit()
assert db.execute("select sum(n) from t where rowid <= 1000").fetchone() == (499500,)
packed = json.dumps(list(range(1000))).encode()
assert all(m.decompress(m.compress(packed)) == packed for m in (bz2, lzma, zlib))
assert subprocess.check_output(["/bin/sh", "-c", "echo $((6 * 7))"]) == b"42\n"
ssl.create_default_context()
print("python works")'
	rm -f /tmp/python.db
}

sh -c 'echo "shell of user $(id -u)"'
python
case $what in
first)
	if hello 2>/dev/null; then echo "hello is there before"; fi
	apt update
	apt install hello
	hello
	# Written over what the image has, with hard links.
	apt install --reinstall perl-base
	perl -e 'print "perl ", 6 * 7, "\n"'
	echo "perl has $(stat -c %h /usr/bin/perl) names"
	verify
	cd /srv/tree
	rm gone
	rm -r emptied
	mkdir emptied
	echo new >emptied/new
	mv old moved
	echo more >>file
	ln file link
	chmod 0600 mode
	mkfifo fifo
	rm replaced
	mkdir replaced
	mv swapped/swapped swapped/other
	;;
later)
	hello
	perl -e 'print "perl ", 6 * 7, "\n"'
	verify
	;;
look)
	verify
	if said=$( (echo x >/srv/tree/file) 2>&1); then echo "written"; fi
	echo "${said##*: }"
	;;
esac
if [ "$what" != look ]; then
	cd /srv/tree
	find . -mindepth 1 | LC_ALL=C sort | tr '\n' ' '
	echo
	cat file link emptied/new moved/kept swapped/other
	stat -c '%a %h' file mode
fi
if has users; then
	if nobody cat /etc/shadow 2>/dev/null; then echo "secrets are readable"; fi
	nobody cat /etc/passwd >/dev/null && echo "nobody reads"
	if nobody touch /srv/tree/nobody 2>/dev/null; then echo "anybody writes"; fi
fi
if has setuid; then
	echo "nobody becomes $(nobody /srv/setuid-id -u)"
	[ "$what" = look ] || nobody /srv/capable-chown 65534 /srv/tree/mode
	[ "$what" = look ] || echo "nobody gave to $(stat -c %u /srv/tree/mode)"
fi
echo "done"
