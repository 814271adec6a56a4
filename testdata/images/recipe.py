"""What the images are made of: a Debian root filesystem, and below /srv/t something of everything.

`first` fills the base layer, `second` changes it as builds do; umoci finds out by itself what the second layer has to
say.
"""
import os
import random
import shutil
import struct

from work import run

NANOS = 1_000_000_000


class Tree:
    """A root filesystem that is being changed."""

    def __init__(self, root, seed):
        self.root = os.fsencode(root)
        self.random = random.Random(seed)

    def at(self, path):
        return os.path.join(self.root, os.fsencode(path))

    def dir(self, path, mode=0o755):
        os.makedirs(self.at(path))
        os.chmod(self.at(path), mode)

    def file(self, path, size=None, mode=0o644, owner=(0, 0), mtime=None):
        data = self.random.randbytes(self.random.randrange(3000) if size is None else size)
        # Half random, half not, as files are.
        with open(self.at(path), "wb") as file:
            file.write(data[: len(data) // 2] + b"microfs\n" * (len(data) // 16))
        os.chown(self.at(path), *owner)
        os.chmod(self.at(path), mode)
        if mtime is not None:
            os.utime(self.at(path), ns=(mtime, mtime))

    def many(self, path, count):
        self.dir(path)
        for number in range(count):
            self.file("%s/f%d" % (path, number))

    def link(self, old, new):
        os.link(self.at(old), self.at(new))

    def symlink(self, target, path):
        os.symlink(target, self.at(path))

    def node(self, path, kind, device=0, mode=0o600):
        os.mknod(self.at(path), kind | mode, device)
        os.chmod(self.at(path), mode)

    def sparse(self, path, size, islands):
        with open(self.at(path), "wb") as file:
            file.truncate(size)
            for number in range(islands):
                file.seek(number * (size // islands) & ~4095)
                file.write(self.random.randbytes(4096))

    def xattr(self, path, name, value):
        os.setxattr(self.at(path), name, value, follow_symlinks=False)

    def remove(self, path):
        full = self.at(path)
        if os.path.isdir(full) and not os.path.islink(full):
            shutil.rmtree(full)
        else:
            os.unlink(full)


def capabilities(permitted):
    """A security.capability of version 2 with these capabilities permitted and effective."""
    return struct.pack("<5I", 0x02000001, permitted & 0xFFFFFFFF, 0, permitted >> 32, 0)


def acl(*entries):
    """A POSIX ACL as the kernel stores it: (tag, permissions, id)."""
    nobody = 0xFFFFFFFF
    rows = [(entry + (nobody,))[:3] for entry in entries]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32
ACCESS = acl((USER_OBJ, 7), (USER, 5, 1001), (GROUP_OBJ, 5), (GROUP, 4, 70000), (MASK, 5), (OTHER, 0))
DEFAULT = acl((USER_OBJ, 7), (USER, 7, 1002), (GROUP_OBJ, 5), (MASK, 7), (OTHER, 5))

CHAR, BLOCK, FIFO = 0o020000, 0o060000, 0o010000


def first(root, big):
    """What the base layer has in addition to Debian."""
    tree = Tree(root, 1)
    tree.dir("srv/t")
    for name in ("gone", "again", "hidden", "emptied", "wiped", "untouched"):
        tree.many("srv/t/" + name, 40)
        tree.many("srv/t/%s/deep" % name, 10)
    # Kinds that will change: one of each, to each.
    kinds = ("file", "dir", "symlink", "fifo", "char")
    tree.dir("srv/t/types")
    for old in kinds:
        for new in kinds:
            make(tree, "srv/t/types/%s-%s" % (old, new), old)
    # Hard links.
    tree.dir("srv/t/links")
    for group in ("kept", "cut", "rewritten", "extended", "across", "moved"):
        tree.file("srv/t/links/%s-0" % group, 5000)
        for number in (1, 2):
            tree.link("srv/t/links/%s-0" % group, "srv/t/links/%s-%d" % (group, number))
    tree.symlink("nowhere", "srv/t/links/symlink-0")
    tree.link("srv/t/links/symlink-0", "srv/t/links/symlink-1")
    tree.node("srv/t/links/fifo-0", FIFO)
    tree.link("srv/t/links/fifo-0", "srv/t/links/fifo-1")
    # Attributes.
    tree.dir("srv/t/attributes")
    for mode in (0o000, 0o444, 0o755, 0o4755, 0o2755, 0o1777, 0o7777):
        tree.file("srv/t/attributes/mode-%o" % mode, 10, mode)
        tree.dir("srv/t/attributes/dir-%o" % mode, mode)
    for number in (1, 1000, 65534, 65536, 2097152, 4294967294):
        tree.file("srv/t/attributes/owner-%d" % number, 10, owner=(number, number // 2))
    for mtime in (0, 1, -1, -NANOS, 1_700_000_000_123_456_789, 2**33 * NANOS + 999_999_999):
        tree.file("srv/t/attributes/mtime%d" % mtime, 10, mtime=mtime)
    for name in ("kept", "cleared", "changed"):
        path = "srv/t/attributes/xattrs-" + name
        tree.file(path, 100, 0o750)
        tree.xattr(path, "security.capability", capabilities(1 << 13 | 1 << 39))
        tree.xattr(path, "system.posix_acl_access", ACCESS)
        tree.xattr(path, "user.binary", bytes(range(256)))
        tree.xattr(path, "user.key with spaces, \u00e9", "value \u00e9".encode())
        tree.xattr(path, "trusted.microfs", b"only for root\0")
        tree.dir(path + ".dir")
        tree.xattr(path + ".dir", "system.posix_acl_access", ACCESS)
        tree.xattr(path + ".dir", "system.posix_acl_default", DEFAULT)
        tree.xattr(path + ".dir", "user.dir", b"x" * 2000)
    tree.symlink("kept", "srv/t/attributes/xattrs-symlink")
    tree.xattr("srv/t/attributes/xattrs-symlink", "trusted.symlink", b"of the link itself")
    # Devices, names, symbolic links to directories, holes.
    tree.dir("srv/t/nodes")
    for major, minor in ((0, 1), (1, 3), (255, 255), (256, 256), (4095, 1048575)):
        device = os.makedev(major, minor)
        tree.node("srv/t/nodes/char-%d-%d" % (major, minor), CHAR, device, 0o666)
        tree.node("srv/t/nodes/block-%d-%d" % (major, minor), BLOCK, device, 0o660)
    tree.node("srv/t/nodes/fifo", FIFO, mode=0o604)
    tree.dir("srv/t/names")
    for name in (b"n" * 255, b"latin1-\xe9", "utf8-\u00e9\u4e2d".encode(), b"new\nline", b" space ", b"-rf", b"*?[a]\\",
                 b"\x01\x7f", b"..."):
        tree.file(b"srv/t/names/" + name, 10)
    path = "srv/t/names"
    for number in range(12):
        path += "/%s%d" % ("deep" * 12, number)
    tree.dir(path)
    tree.file(path + "/file", 10)
    tree.symlink("x" * 4000, "srv/t/names/long-target")
    tree.dir("srv/t/real")
    tree.many("srv/t/real/sub", 5)
    tree.symlink("real", "srv/t/to-real")
    tree.symlink("/srv/t/real/sub", "srv/t/to-sub")
    tree.symlink("to-real", "srv/t/to-to-real")
    tree.sparse("srv/t/sparse", 256 << 20 if big else 8 << 20, 16)
    tree.file("srv/t/large", (40 << 20 if big else 3 << 20) + 17)
    tree.file("srv/t/empty", 0)
    if big:
        shutil.copytree(tree.at("usr/lib/python3.11"), tree.at("srv/t/copy"), symlinks=True)


def make(tree, path, kind):
    if kind == "file":
        tree.file(path, 2000)
    elif kind == "dir":
        tree.many(path, 3)
    elif kind == "symlink":
        tree.symlink("../untouched", path)
    elif kind == "fifo":
        tree.node(path, FIFO)
    elif kind == "char":
        tree.node(path, CHAR, os.makedev(1, 5))


def second(root, big):
    """What a later build step did to it."""
    tree = Tree(root, 2)
    tree.remove("srv/t/gone")
    tree.remove("srv/t/again")
    tree.many("srv/t/again", 3)
    tree.dir("srv/t/again/new")
    for name in os.listdir(tree.at("srv/t/emptied")):
        tree.remove(b"srv/t/emptied/" + name)
    tree.remove("srv/t/untouched/deep/f3")
    kinds = ("file", "dir", "symlink", "fifo", "char")
    for old in kinds:
        for new in kinds:
            path = "srv/t/types/%s-%s" % (old, new)
            tree.remove(path)
            make(tree, path, new)
    tree.remove("srv/t/links/cut-0")
    with open(tree.at("srv/t/links/rewritten-1"), "r+b") as file:
        file.write(b"rewritten in place")
    tree.link("srv/t/links/extended-0", "srv/t/links/extended-3")
    tree.link("srv/t/links/extended-0", "srv/t/real/extended-4")
    os.rename(tree.at("srv/t/links/moved-0"), tree.at("srv/t/links/moved-3"))
    os.chmod(tree.at("srv/t/attributes/mode-444"), 0o640)
    os.chmod(tree.at("srv/t/attributes/dir-755"), 0o3711)
    os.chown(tree.at("srv/t/attributes/owner-1"), 77, 78)
    os.utime(tree.at("srv/t/attributes/mtime0"), ns=(5, 1_600_000_000_000_000_001))
    for suffix in ("", ".dir"):
        path = "srv/t/attributes/xattrs-cleared" + suffix
        for name in os.listxattr(tree.at(path)):
            os.removexattr(tree.at(path), name)
    tree.xattr("srv/t/attributes/xattrs-changed", "security.capability", capabilities(1))
    tree.xattr("srv/t/attributes/xattrs-changed", "user.added", b"now")
    os.removexattr(tree.at("srv/t/attributes/xattrs-changed"), "user.binary")
    tree.remove("srv/t/to-to-real")
    tree.many("srv/t/to-to-real", 4)
    tree.many("srv/t/to-real/through", 4)
    with open(tree.at("srv/t/large"), "r+b") as file:
        file.seek(1 << 20)
        file.write(tree.random.randbytes(100_000))
    # What happens in images all day: documentation removed, caches made.
    shutil.rmtree(tree.at("usr/share/doc"))
    if big:
        shutil.rmtree(tree.at("usr/share/perl"))
        run("chroot", root, "python3", "-m", "compileall", "-q", "-f", "/usr/lib/python3.11")
        run("chroot", root, "dpkg", "--purge", "--force-depends", "npm")
    else:
        shutil.rmtree(tree.at("usr/share/zoneinfo/America"))
