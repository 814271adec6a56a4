"""Layers as other tools write them: by GNU tar, and entry by entry."""
import io
import os
import tarfile

from recipe import CHAR, FIFO, Tree, capabilities
from work import run

PAX = tarfile.PAX_FORMAT


def gnu_layer(place, path, big):
    """A layer that GNU tar made of a directory: sparse files in its own way, no entries for /srv and /srv/t."""
    os.mkdir(place)
    tree = Tree(place, 3)
    tree.dir("srv/t/tar")
    tree.sparse("srv/t/tar/sparse", 512 << 20 if big else 16 << 20, 9)
    tree.sparse("srv/t/tar/only-a-hole", 1 << 20, 0)
    tree.sparse("srv/t/sparse", 4 << 20, 3)
    tree.file("srv/t/tar/one", 4000, mtime=1_234_567_890_987_654_321)
    tree.link("srv/t/tar/one", "srv/t/tar/two")
    tree.xattr("srv/t/tar/one", "user.tar", b"value\n\0")
    tree.xattr("srv/t/tar/one", "security.capability", capabilities(1 << 10))
    tree.node("srv/t/tar/char", CHAR, os.makedev(10, 200))
    tree.node("srv/t/tar/fifo", FIFO)
    tree.many("srv/t/tar/many", 60)
    run("tar", "--create", "--file", path, "--directory", place, "--format=posix", "--sparse", "--numeric-owner",
        "--xattrs", "--xattrs-include=*", "--sort=name", "--no-recursion", "srv/t/sparse", "--recursion", "srv/t/tar")


class Layer:
    """A layer that is written entry by entry."""

    def __init__(self, path):
        self.archive = tarfile.open(path, "w", format=PAX)

    def add(self, name, kind=tarfile.REGTYPE, data=b"", mode=0o644, link="", pax=None, mtime=1_500_000_000,
            owner=(0, 0), device=(0, 0)):
        entry = tarfile.TarInfo(name)
        entry.type, entry.size, entry.mode, entry.linkname = kind, len(data), mode, link
        entry.mtime, (entry.uid, entry.gid) = mtime, owner
        entry.devmajor, entry.devminor = device
        entry.pax_headers = pax or {}
        self.archive.addfile(entry, io.BytesIO(data))

    def dir(self, name, mode=0o755, **more):
        self.add(name, tarfile.DIRTYPE, mode=mode, **more)

    def link(self, name, target):
        self.add(name, tarfile.LNKTYPE, link=target)

    def symlink(self, name, target):
        self.add(name, tarfile.SYMTYPE, mode=0o777, link=target)


def last_layer(path):
    """What no tool above makes: links to lower layers, opaque marks amid their siblings, files put through links."""
    layer = Layer(path)
    # Hard links whose target is in a lower layer, in the order that needs them before they are gone.
    layer.link("srv/t/links/across-3", "srv/t/links/across-1")
    layer.link("./srv/t/real/across-4", "./srv/t/links/across-0")
    layer.link("srv/t/links/symlink-2", "srv/t/links/symlink-1")
    layer.link("srv/t/links/fifo-2", "srv/t/links/fifo-0")
    layer.link("usr/share/zoneinfo/linked-below", "usr/share/zoneinfo/UTC")
    # A link to a link of this layer, and one to a file of this layer.
    layer.link("srv/t/links/across-5", "srv/t/links/across-3")
    layer.add("srv/t/links/new-0", data=b"new", mode=0o600)
    layer.link("srv/t/links/new-1", "srv/t/links/new-0")
    # A name of a lower hard link becomes a file of its own; another goes.
    layer.add("srv/t/links/kept-1", data=b"on its own now")
    layer.add("srv/t/links/.wh.kept-2")
    # Opaque: the mark between two files that stay, with a directory that is there again.
    layer.dir("srv/t/wiped", 0o711, mtime=1_400_000_000, owner=(33, 34))
    layer.add("srv/t/wiped/before", data=b"before the mark")
    layer.add("srv/t/wiped/.wh..wh..opq")
    layer.add("srv/t/wiped/after", data=b"after the mark")
    layer.dir("srv/t/wiped/deep")
    layer.add("srv/t/wiped/deep/f1", data=b"another f1")
    # A whiteout of a directory, and of what was a whiteout already.
    layer.add("srv/t/.wh.emptied")
    layer.add("srv/t/again/.wh.new")
    layer.add("srv/t/again/.wh.f0")
    # Files put through symbolic links to directories, relative, absolute, and Debian's own.
    layer.add("srv/t/to-real/put-1", data=b"through to-real")
    layer.add("srv/t/to-sub/put-2", data=b"through to-sub")
    layer.add("srv/t/to-real/sub/put-3", data=b"through to-real, then down")
    layer.add("srv/t/to-sub/.wh.f1")
    layer.link("srv/t/to-sub/put-4", "srv/t/links/across-2")
    # A directory takes the place of a symbolic link to one, and the other way round.
    layer.symlink("srv/t/to-to-real", "real")
    layer.symlink("srv/t/now-a-link", "untouched")
    # Times to the nanosecond, large ids, extended attributes that are text and that are not.
    pax = {"mtime": "1600000000.987654321", "uid": "4000000000", "SCHILY.xattr.user.text": "text \u00e9",
           "SCHILY.xattr.security.capability": capabilities(0x8020).decode("utf-8", "surrogateescape")}
    layer.add("srv/t/attributes/by-hand", data=b"x" * 10_000, mode=0o6755, pax=pax)
    layer.dir("srv/t/attributes/dir-444", 0o700, pax={"mtime": "-5.25", "SCHILY.xattr.user.dir": "top"})
    # An entry without attributes takes them away; a default ACL is not for what an archive puts below it.
    layer.add("srv/t/attributes/xattrs-cleared", data=b"bare", mode=0o640)
    layer.dir("srv/t/attributes/xattrs-cleared.dir", 0o750)
    for kind in ("kept", "cleared"):
        layer.add("srv/t/attributes/xattrs-%s.dir/file" % kind, data=b"bare", mode=0o666)
        layer.dir("srv/t/attributes/xattrs-%s.dir/dir" % kind, 0o777)
    layer.add("srv/t/nodes/char-1-3", tarfile.CHRTYPE, mode=0o622, device=(1, 7))
    layer.add("srv/t/nodes/block-high", tarfile.BLKTYPE, mode=0o640, device=(259, 70000))
    # Missing parents.
    layer.add("srv/t/made/on/the/way/file", data=b"deep")
    layer.archive.close()
