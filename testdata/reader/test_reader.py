"""Tests of the second reader, of the golden blobs, and of FORMAT.md: python3 -m unittest"""
import hashlib
import re
import unittest
from pathlib import Path

from blake3 import blake3
from blob import NoDecoder, decode, zstd_frame
from layer import DIRECTORY, HOLLOW, KINDS, LINK_BELOW, REGULAR, WHITEOUT
from microfs_reader import Entry, Layer, ReadError, RuleError, Stack, check, list_layer, list_stack

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
FORMAT = HERE.parent.parent / "pkg" / "FORMAT.md"


def golden(name):
    return (GOLDEN / f"{name}.microfs").read_bytes()


def goldens():
    names = sorted(path.stem for path in GOLDEN.glob("*.microfs"))
    assert names, f"no golden blobs in {GOLDEN}"
    return names


# The text of golden layers, as composefs-dump(5) with more fields at the end.

def dump_escape(text):
    named = {0x5C: "\\\\", 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t"}
    plain = lambda byte: chr(byte) if 0x20 < byte < 0x7F and byte != 0x3D else f"\\x{byte:02x}"
    return "\\x2d" if text == b"-" else "".join(named.get(byte) or plain(byte) for byte in text)


def dump_path(path):
    return dump_escape(b"/" + b"/".join(path))


def makedev(major, minor):
    return (major & 0xFFFFF000) << 32 | (major & 0xFFF) << 8 | (minor & 0xFFFFFF00) << 12 | minor & 0xFF


def dump(entries):
    first = {}
    for entry in entries:
        again, payload = "", "-" if entry.target is None else dump_escape(entry.target)
        if entry.kind != WHITEOUT and first.setdefault(entry.object, entry.path) != entry.path:
            again, payload = "@", dump_path(first[entry.object])
        mode = next((bits for bits, kind in KINDS.items() if kind == entry.kind), 0) | entry.permissions
        size = 0 if entry.kind == DIRECTORY else entry.size
        data = entry.sha256 if entry.kind == REGULAR and size else "-"
        line = (f"{dump_path(entry.path)} {size} {again}{mode:o} {entry.links} {entry.uid} {entry.gid} "
                f"{makedev(*entry.device)} {entry.mtime[0]}.{entry.mtime[1]} {payload} - {data}")
        line += "".join(f" {dump_escape(name)}={dump_escape(value)}" for name, value in entry.xattrs)
        if entry.holes():
            line += " microfs.data=" + ",".join(f"{start}-{end}" for start, end in entry.data)
        marks = {WHITEOUT: ["whiteout"], LINK_BELOW: ["link-below"]}.get(entry.kind, entry.marks)
        yield line + "".join(f" microfs.{mark}=" for mark in marks) + "\n"


class Blake3(unittest.TestCase):
    VECTORS = {  # of the BLAKE3 repository; byte i of the input is i % 251
        0: "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
        1: "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
        1024: "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7",
        1025: "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444",
        2049: "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030",
        31744: "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47",
        102400: "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085",
    }

    def test_vectors(self):
        for length, digest in self.VECTORS.items():
            self.assertEqual(blake3(bytes(i % 251 for i in range(length))).hex(), digest, length)
        self.assertEqual(
            blake3(b"abc").hex(), "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85")


class Golden(unittest.TestCase):
    def test_listings_are_as_recorded(self):
        for name in goldens():
            with self.subTest(name):
                expected = (GOLDEN / f"{name}.dump").read_text()
                self.assertEqual("".join(dump(list(list_layer(Layer(golden(name)))))), expected)

    def test_every_rule_holds(self):
        for name in goldens():
            with self.subTest(name):
                check(Layer(golden(name)))

    def test_names_and_paths_lead_to_each_other(self):
        for name in goldens():
            layer = Layer(golden(name))
            directories = [i for i in map(layer.inode, range(layer.count("Inodes"))) if i.kind == DIRECTORY]
            for directory in directories:
                entries = list(layer.entries(directory))
                for dentry in entries:
                    self.assertEqual(layer.lookup(directory, dentry.name), dentry)
                    self.assertIsNone(layer.lookup(directory, dentry.name + b"\x01"))
                self.assertIsNone(layer.lookup(directory, b"\x01"))
                self.assertIsNone(layer.lookup(directory, b"\xff" * 256))
            for entry in list_layer(layer):
                if entry.links == 1 or entry.kind == DIRECTORY:
                    self.assertEqual(layer.path(entry.object), entry.path)

    def test_a_byte_at_a_time(self):
        layer = Layer(golden("holes"))
        for inode in map(layer.inode, range(layer.count("Inodes"))):
            if inode.kind == REGULAR and inode.size < 10_000:
                whole = b"".join(data or bytes(end - start) for start, end, data in layer.read(inode))
                for offset in range(inode.size):
                    data, _ = layer.read_at(inode, offset)
                    self.assertEqual((data or b"\0")[0], whole[offset])

    def test_stack_of_one_layer(self):
        """What a layer alone shows: section 14 without anything below."""
        for name in goldens():
            layer = Layer(golden(name))
            expected = []
            for entry in list_layer(layer):
                if entry.kind in (WHITEOUT, LINK_BELOW) or "hollow" in entry.marks:
                    continue
                if "implied" in entry.marks:
                    entry = Entry(entry.path, DIRECTORY, 0o755, links=entry.links, object=entry.object)
                if entry.kind == DIRECTORY:
                    inode = layer.inode(entry.object)
                    entry.links -= sum(
                        layer.target(dentry).has(HOLLOW) for dentry in layer.entries(inode)
                        if dentry.kind == DIRECTORY)
                entry.marks = []
                expected.append(entry)
            merged = [entry for entry in list_stack(Stack([layer])) if "unresolved" not in entry.marks]
            self.assertEqual("".join(dump(merged)), "".join(dump(expected)), name)

    def test_links_below_and_marks_over_a_layer(self):
        merged = {b"/".join(e.path): e for e in list_stack(Stack([Layer(golden("blocks")), Layer(golden("marks"))]))}
        self.assertIn("unresolved", merged[b"another"].marks)
        self.assertNotIn(b"usr/hollow", merged)
        self.assertEqual(merged[b"usr"].permissions, 0o755)
        self.assertIn(b"words-5000", merged)


class Document(unittest.TestCase):
    """The worked example, section 20."""

    @classmethod
    def setUpClass(cls):
        cls.text = FORMAT.read_text()
        section = cls.text[cls.text.index("\n## 20 "):cls.text.index("\n## 21 ")]
        length = int(re.search(r"The blob has (\d+) bytes", section)[1])
        blob, end = bytearray(length), 0
        for block in re.findall(r"```hex\n(.*?)```", section, re.S):
            for line in block.splitlines():
                address, _, rest = line.partition("  ")
                offset, data = int(address, 16), bytes.fromhex(rest.partition(";")[0])
                assert end <= offset, line
                end = offset + len(data)
                blob[offset:end] = data
        cls.section, cls.blob = section, bytes(blob)

    def test_it_is_the_golden_blob(self):
        self.assertEqual(self.blob, golden("worked-example"))

    def test_digests(self):
        recorded = re.findall(r"`([0-9a-f]{64})`", self.section)
        parts = self.blob, self.blob[-4096:]
        self.assertEqual([hashlib.sha256(part).hexdigest() for part in parts], recorded)

    def test_it_reads_as_described(self):
        layer = Layer(self.blob)
        check(layer)
        root, empty, hello, link = list_layer(layer)
        self.assertEqual((root.kind, root.permissions, root.links), (DIRECTORY, 0o755, 2))
        self.assertEqual((empty.path, empty.size), ((b"empty",), 0))
        self.assertEqual((hello.size, hello.xattrs), (5, [(b"user.a", b"1")]))
        self.assertEqual(hello.sha256, hashlib.sha256(b"hello").hexdigest())
        self.assertEqual((link.path, link.target, link.permissions), ((b"link",), b"hello", 0o777))
        self.assertTrue(all((e.uid, e.gid, e.mtime) == (0, 0, (1, 0)) for e in (root, empty, hello, link)))

    def test_record_tables_add_up(self):
        """Every field begins where the one before it ends, and the last ends with the record."""
        records = re.findall(r"Record \*\*(.+?)\*\*, (\d+) bytes(.*?)\n\n(\|.*?)\n\n", self.text, re.S)
        self.assertEqual(len(records), 12)
        for name, size, _, table in records:
            at = 0
            for offset, width in re.findall(r"^\| (\d+) \| (\d+) \|", table, re.M):
                self.assertEqual(int(offset), at, name)
                at += int(width)
            self.assertEqual(at, int(size), name)


def listing(data):
    return [entry.text() for entry in list_layer(Layer(data))]


class Corruption(unittest.TestCase):
    def flip(self, name, step):
        """A flipped bit is never read as other content, and `check` finds all of them."""
        original, found = golden(name), listing(golden(name))
        for offset in range(0, len(original), step):
            changed = bytearray(original)
            changed[offset] ^= 1 << offset % 8
            try:
                self.assertEqual(listing(bytes(changed)), found, offset)
            except ReadError:
                pass
            with self.assertRaises(RuleError, msg=offset):
                check(Layer(bytes(changed)))

    def test_flips_of_every_byte(self):
        self.flip("marks", 1)

    def test_flips_of_some_bytes(self):
        for name in goldens():
            with self.subTest(name):
                self.flip(name, 61)

    def test_every_prefix(self):
        for name in goldens():
            blob = golden(name)
            for length in range(len(blob)):
                with self.assertRaises(RuleError, msg=length):
                    Layer(blob[:length])

    def test_every_middle_left_out(self):
        blob = golden("types")
        for length in range(4096, len(blob), 4096):
            with self.assertRaises(RuleError):
                Layer(blob[:length - 4096] + blob[length:])


class Codecs(unittest.TestCase):
    def test_codecs_without_decoder_are_named(self):
        for codec, name in ((2, "lz4"), (5, "lzo")):
            with self.assertRaisesRegex(NoDecoder, name):
                decode(codec, b"stored", 7, "block 0")

    def test_frames_of_section_13(self):
        import zstandard
        plain = bytes(range(256)) * 20
        right = {"write_content_size": True, "write_checksum": True, "write_dict_id": False}
        frame = zstandard.ZstdCompressor(**right).compress(plain)
        self.assertEqual(zstd_frame(frame, len(plain), ""), len(plain))
        wrong = [zstandard.ZstdCompressor(**{**right, key: not right[key]}).compress(plain)
                 for key in ("write_content_size", "write_checksum")]
        wrong += [frame + frame, frame + b"\0", frame[:-1], b"\x50\x2a\x4d\x18\0\0\0\0" + frame]
        for stored in wrong:
            with self.assertRaises(RuleError) as caught:
                zstd_frame(stored, len(plain), "")
            self.assertEqual(caught.exception.number, 36)


if __name__ == "__main__":
    unittest.main()
