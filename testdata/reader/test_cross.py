"""Blobs that the program in MICROFS_BIN builds, against the trees they were built from."""
import hashlib
import json
import os
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

from layer import DIRECTORY, KINDS, REGULAR, SYMLINK
from microfs_reader import Layer, Stack, check, list_layer, list_stack

BIN = os.environ.get("MICROFS_BIN")
OPTIONS = ["-b 512 -c none", "-b 4K -c zstd:1", "-b 128K -c zstd:9", "-b 1M -c zstd:19", "-b 2K -c zstd:3 --no-dedup"]


def make_tree(root):
    """Writes a tree; device nodes, owners and trusted attributes only as root."""
    is_root = os.geteuid() == 0
    words = b"".join(b"line %d of some text\n" % number for number in range(40_000))
    noise = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(8000))
    sizes = (0, 1, 511, 512, 513, 4095, 4096, 4097, 131_071, 131_072, 131_073, 300_000)
    for name, source in (("words", words), ("noise", noise)):
        folder = root / name
        folder.mkdir()
        for size in sizes:
            (folder / f"{size:06}").write_bytes(source[:size])
            (folder / f"{size:06} end").write_bytes(source[len(source) - size:])
    (root / "zeros").write_bytes(bytes(200_000))
    with open(root / "holes", "wb") as file:
        for offset, length in ((1 << 16, 10), (1 << 20, 70_000), (5 << 20, 4096)):
            file.seek(offset)
            file.write(words[:length])
        file.truncate(1 << 33)
    with open(root / "all hole", "wb") as file:
        file.truncate(123_457)
    deep = root
    for depth in range(40):
        deep = deep / f"deep-{depth}"
        deep.mkdir()
    (deep / "file").write_text("at the bottom")
    many = root / "many"
    many.mkdir()
    for number in range(1500):
        (many / f"a name of some length, number {number:04}").touch()
    odd = os.fsencode(root / "odd")
    os.mkdir(odd)
    for name in (b"\xff\xfe", b"a\nb", b"=,\\ -", b"x" * 255, b".wh.file", b"...", "ö".encode()):
        with open(os.path.join(odd, name), "wb") as file:
            file.write(name)
    os.symlink(b"\xff no such", os.path.join(odd, b"link"))
    os.symlink("/" * 4000, os.path.join(odd, b"long link"))
    os.mkfifo(root / "fifo")
    for name in ("hard", "words/hard", "deep-0/hard"):
        os.link(root / "words/000513", root / name)
    os.link(root / "fifo", root / "many/fifo")
    for number in range(20):
        os.setxattr(many, f"user.number {number}", b"%d" % number * 10)
    os.setxattr(root / "zeros", "user.empty", b"")
    os.setxattr(root / "holes", "user.binary", bytes(range(256)) * 4)
    if is_root:
        os.setxattr(root / "holes", "trusted.one", b"1")
        os.mknod(root / "char", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        os.mknod(root / "block", stat.S_IFBLK | 0o660, os.makedev(4095, 1_048_575))
        os.chown(root / "words", 65_534, 4_000_000_000)
    os.chmod(root / "noise/000001", 0o6751)
    os.chmod(root / "noise", 0o3711)
    for name, time in (("words/000001", -1), ("words/000511", 2**33 * 10**9 + 1), ("many", 1)):
        os.utime(root / name, ns=(time, time))


def source(root):
    """Path -> what the reader should say: kind, mode, owner, links, size, time, device, target, content, holes."""
    found = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        names = [b""] if folder == os.fsencode(root) else []
        for name in names + folders + files:
            full = os.path.join(folder, name) if name else folder
            found[tuple(os.path.relpath(full, os.fsencode(root)).split(b"/")) if name else ()] = of_file(full)
    return found


def of_file(full):
    info = os.lstat(full)
    kind = KINDS[stat.S_IFMT(info.st_mode)]
    digest, data = None, []
    if kind == REGULAR:
        digest = hashlib.sha256()
        with open(full, "rb") as file:
            data = list(data_runs(file.fileno(), info.st_size))
            for start, end in data:
                digest.update(os.pread(file.fileno(), end - start, start))
        digest = digest.hexdigest()
    xattrs = sorted((os.fsencode(name), os.getxattr(full, name, follow_symlinks=False))
                    for name in os.listxattr(full, follow_symlinks=False))
    return {
        "kind": kind, "permissions": stat.S_IMODE(info.st_mode), "uid": info.st_uid, "gid": info.st_gid,
        "links": info.st_nlink, "size": 0 if kind == DIRECTORY else info.st_size,
        "mtime": divmod(info.st_mtime_ns, 10**9), "device": (os.major(info.st_rdev), os.minor(info.st_rdev)),
        "target": os.readlink(full) if kind == SYMLINK else None, "sha256": digest, "data": data, "xattrs": xattrs}


def data_runs(file, size):
    at = 0
    while at < size:
        try:
            start = os.lseek(file, at, os.SEEK_DATA)
        except OSError:
            return
        at = os.lseek(file, start, os.SEEK_HOLE)
        yield start, at


@unittest.skipUnless(BIN or os.environ.get("CI"), "MICROFS_BIN is not set")
class Cross(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not BIN:
            raise AssertionError("CI is set and MICROFS_BIN is not")
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.tree, cls.layout = Path(cls.scratch.name, "tree"), Path(cls.scratch.name, "layout")
        cls.tree.mkdir()
        make_tree(cls.tree)
        cls.source = source(cls.tree)

    def build(self, tag, options=""):
        subprocess.run([BIN, "build", "--quiet", *options.split(), self.tree, self.layout, tag], check=True)

    def blob(self, digest):
        return (self.layout / "blobs" / digest.replace(":", "/")).read_bytes()

    def layers(self, tag):
        index = json.loads((self.layout / "index.json").read_text())
        manifest = next(item for item in index["manifests"]
                        if item["annotations"]["org.opencontainers.image.ref.name"] == tag)
        return json.loads(self.blob(manifest["digest"]))["layers"]

    def test_the_tree_comes_back(self):
        for number, options in enumerate(OPTIONS):
            with self.subTest(options):
                self.build(f"t{number}", options)
                (descriptor,) = self.layers(f"t{number}")
                layer = Layer(self.blob(descriptor["digest"]))
                check(layer)
                for entries in (list_layer(layer), list_stack(Stack([layer]))):
                    entries = {entry.path: entry for entry in entries}
                    self.assertEqual(sorted(entries), sorted(self.source))
                    for path, expected in self.source.items():
                        entry = entries[path]
                        got = {name: getattr(entry, name) for name in expected}
                        got["size"] = 0 if entry.kind == DIRECTORY else entry.size
                        self.assertEqual(got, expected, path)
                    same = {}
                    for path, entry in entries.items():
                        full = os.path.join(os.fsencode(self.tree), *path)
                        same.setdefault(entry.object, set()).add(os.lstat(full).st_ino)
                    self.assertTrue(all(len(numbers) == 1 for numbers in same.values()))

    def test_annotations(self):
        """Section 15."""
        self.build("annotated")
        (descriptor,) = self.layers("annotated")
        blob, notes = self.blob(descriptor["digest"]), descriptor["annotations"]
        self.assertEqual(descriptor["mediaType"], "application/vnd.oci.image.layer.microfs.v1")
        self.assertEqual(
            notes["containerd.io/snapshot/microfs-superblock-digest"],
            "sha256:" + hashlib.sha256(blob[-4096:]).hexdigest())
        self.assertEqual(
            notes["containerd.io/snapshot/microfs-tail-length"],
            str(len(blob) - Layer(blob).superblock.metadata_offset))


if __name__ == "__main__":
    unittest.main()
