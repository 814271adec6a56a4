"""Every rule of section 18 that a reader of one blob can check, broken alone with all digests right."""
import unittest

from blob import RuleError
from edited import Edited
from layer import HOLE, HOLLOW, IMPLIED, INLINE_EXTENT, OPAQUE, Layer
from microfs_reader import check
from test_reader import FORMAT, golden

# Rule -> golden blob and how to break it. Inodes of the worked example: 1 `empty`, 2 `hello`, 3 `link`.
EXAMPLE, MARKS, HOLES, ATTRIBUTES, TYPES = "worked-example", "marks", "holes", "attributes", "types"
OPEN = [
    (2, EXAMPLE, lambda e: e.set_superblock(magic=b"\x89mfs-enD")),
    (3, EXAMPLE, lambda e: e.set_superblock(version=2)),
    (3, EXAMPLE, lambda e: e.set_superblock(superblock_size=8192)),
    (4, EXAMPLE, lambda e: e.set_superblock(incompatible=1 << 63)),
    (6, EXAMPLE, lambda e: e.set_superblock(blob_length=12288)),
    (7, EXAMPLE, lambda e: e.set_superblock(digest_algorithm=3)),
    (7, EXAMPLE, lambda e: e.set_superblock(block_log=8)),
    (7, EXAMPLE, lambda e: e.set_superblock(block_log=21)),
    (7, EXAMPLE, lambda e: e.set_superblock(metadata_log=17)),
    (7, EXAMPLE, lambda e: e.set_superblock(page_log=3)),
    (7, EXAMPLE, lambda e: e.set_superblock(window_log=21)),
    (8, EXAMPLE, lambda e: e.set_superblock(content_offset=63)),
    (8, EXAMPLE, lambda e: e.set_superblock(content_end=63)),
    (8, EXAMPLE, lambda e: e.set_superblock(content_blocks=6)),
    (8, EXAMPLE, lambda e: e.set_superblock(pages_offset=839)),
    (8, EXAMPLE, lambda e: e.set_superblock(blobs_offset=2**64 - 1)),
    (8, EXAMPLE, lambda e: e.set_superblock(blob_count=4096)),
    (9, EXAMPLE, lambda e: e.set_superblock(metadata_blocks=8)),
    (9, EXAMPLE, lambda e: e.set_superblock(xattr_names=0)),
    (9, EXAMPLE, lambda e: e.set_section("Inodes", count=-4)),
    (9, EXAMPLE, lambda e: e.set_section("Inodes", count=500)),
    (9, EXAMPLE, lambda e: e.set_section("Heap", blocks=1)),
    (9, EXAMPLE, lambda e: e.set_section("Dentries", count=2**15)),
    (9, EXAMPLE, lambda e: e.set_section("DentryIndex", blocks=-1, count=-1)),
    (10, EXAMPLE, lambda e: e.set_superblock(tail_digest=bytes(32))),
    (30, EXAMPLE, lambda e: e.set_superblock(blob_count=4097)),
]
CHECK = [
    (12, EXAMPLE, lambda e: e.set_pointer(0, codec=6)),
    (12, EXAMPLE, lambda e: e.set_pointer(0, stored=4)),
    (12, EXAMPLE, lambda e: e.set_pointer(0, offset=65)),
    (12, EXAMPLE, lambda e: e.set_pointer(1, offset=64)),
    (12, EXAMPLE, lambda e: e.set_pointer(0, plain=5 | 1 << 24)),
    (12, EXAMPLE, lambda e: e.set_pointer(0, stored=0, plain=0)),
    (13, EXAMPLE, lambda e: e.set_pointer(0, digest=bytes(32))),
    (14, EXAMPLE, lambda e: e.set_pointer(0, codec=1)),
    (14, EXAMPLE, lambda e: e.set_pointer(1, codec=3)),
    (14, EXAMPLE, lambda e: e.set_pointer(1, codec=4)),
    (14, HOLES, lambda e: e.set_pointer(0, plain=1893)),
    (15, EXAMPLE, lambda e: e.set_plain("Inodes", lambda plain: plain[:-1])),
    (15, EXAMPLE, lambda e: e.set_plain("Heap", lambda plain: plain + b"\0")),
    (16, EXAMPLE, lambda e: e.set("Inodes", 1, mode=0o110644)),
    (16, EXAMPLE, lambda e: e.set("Inodes", 1, mode=0o644)),
    (16, EXAMPLE, lambda e: e.set("Inodes", 1, flags=OPAQUE)),
    (16, EXAMPLE, lambda e: e.set("Inodes", 0, flags=HOLLOW)),
    (16, EXAMPLE, lambda e: e.set("Inodes", 0, flags=16)),
    (16, EXAMPLE, lambda e: e.set("Inodes", 1, links=0)),
    (16, EXAMPLE, lambda e: e.set("Inodes", 0, size=1)),
    (16, EXAMPLE, lambda e: e.set("Inodes", 2, size=2**63)),
    (16, EXAMPLE, lambda e: e.set("Inodes", 3, size=4096)),
    (16, EXAMPLE, lambda e: e.set("Inodes", 2, hole_bytes=1)),
    (16, EXAMPLE, lambda e: e.set("Inodes", 1, mtime_nanoseconds=10**9)),
    (16, EXAMPLE, lambda e: e.set("Inodes", 1, start=1)),
    (16, EXAMPLE, lambda e: e.set("Inodes", 1, flags=INLINE_EXTENT)),
    (16, EXAMPLE, lambda e: e.set("Inodes", 2, flags=0)),
    (16, HOLES, lambda e: e.set("Inodes", 1, hole_bytes=11)),
    (16, MARKS, lambda e: e.set("Inodes", 1, size=0)),
    (17, EXAMPLE, lambda e: e.set("Inodes", 1, parent=4)),
    (17, EXAMPLE, lambda e: e.set_dentry(0, inode=4)),
    (18, EXAMPLE, lambda e: e.set("Inodes", 0, dentry=0)),
    (18, EXAMPLE, lambda e: e.set("Inodes", 0, parent=1)),
    (18, EXAMPLE, lambda e: e.set("Inodes", 1, dentry=2**64 - 1)),
    (18, EXAMPLE, lambda e: e.set("Inodes", 0, mode=0o140755, start=0, count=0)),
    (19, EXAMPLE, lambda e: e.set_plain("Dentries", lambda plain: plain[:3])),
    (19, EXAMPLE, lambda e: e.set_plain("Dentries", lambda plain: b"\x06" + plain[1:])),
    (19, EXAMPLE, lambda e: e.set_plain("Dentries", lambda plain: bytes(4) + plain[4:])),
    (19, EXAMPLE, lambda e: e.set_plain("Dentries", lambda plain: plain + b"\0")),
    (19, EXAMPLE, lambda e: e.set_dentry(1, name_end=4)),
    (20, ATTRIBUTES, lambda e: e.set("DentryIndex", 0, position=1)),
    (20, ATTRIBUTES, lambda e: e.set("DentryIndex", 1, position=1)),
    (20, EXAMPLE, lambda e: e.set_plain("Dentries", lambda plain: b"\x02" + plain[1:])),
    (21, EXAMPLE, lambda e: e.set_dentry(0, name_end=0)),
    (21, EXAMPLE, lambda e: e.set_plain("Dentries", lambda plain: plain.replace(b"empty", b"emp/y"))),
    (21, EXAMPLE, lambda e: e.set_plain("Dentries", lambda plain: plain.replace(b"empty", b"empt\0"))),
    (22, EXAMPLE, lambda e: e.set_plain("Dentries", lambda plain: plain.replace(b"empty", b"zmpty"))),
    (22, EXAMPLE, lambda e: e.set_plain("Dentries", lambda p: p.replace(b"emptyhello", b"samexsamex"))),
    (23, EXAMPLE, lambda e: e.set_dentry(0, kind=10)),
    (23, EXAMPLE, lambda e: e.set_dentry(0, kind=0)),
    (23, EXAMPLE, lambda e: e.set_dentry(0, kind=9)),
    (23, EXAMPLE, lambda e: e.set_dentry(0, inode=0)),
    (23, EXAMPLE, lambda e: e.set_dentry(0, kind=3)),
    (24, HOLES, lambda e: e.set("Extents", 0, file_offset=1)),
    (24, HOLES, lambda e: e.set("Extents", 2, file_offset=10)),
    (24, HOLES, lambda e: e.set("Extents", 2, file_offset=30)),
    (24, HOLES, lambda e: e.set("Extents", 2, blob=HOLE, block_offset=0)),
    (24, HOLES, lambda e: e.set("Extents", 1, blob=0, block_offset=10)),
    (24, HOLES, lambda e: e.set("Inodes", 8, count=3)),
    (25, HOLES, lambda e: e.set("Extents", 0, block=5)),
    (25, HOLES, lambda e: e.set("Extents", 2, block_offset=1883)),
    (25, HOLES, lambda e: e.set("Extents", 17, block=1)),
    (25, HOLES, lambda e: e.set("Extents", 0, block_offset=1892)),
    (25, EXAMPLE, lambda e: e.set("Inodes", 2, size=6)),
    (26, EXAMPLE, lambda e: e.set("Inodes", 0, xattrs=2)),
    (26, EXAMPLE, lambda e: e.set("XattrSets", 0, count=2)),
    (26, EXAMPLE, lambda e: e.set("XattrSets", 0, first=2**64 - 1)),
    (26, EXAMPLE, lambda e: e.set("XattrSets", 0, count=0)),
    (26, EXAMPLE, lambda e: e.set("XattrEntries", 0, name=1)),
    (26, EXAMPLE, lambda e: e.set("XattrNames", 0, length=0)),
    (26, EXAMPLE, lambda e: e.set_plain("Heap", lambda plain: plain.replace(b"user.a", b"user.\0"))),
    (26, ATTRIBUTES, lambda e: e.set("XattrNames", 0, position=0, length=1)
                               .set("XattrNames", 1, position=0, length=1)),
    (27, EXAMPLE, lambda e: e.set("XattrEntries", 0, value=12)),
    (27, EXAMPLE, lambda e: e.set("XattrEntries", 0, length=7)),
    (27, EXAMPLE, lambda e: e.set("Inodes", 3, start=8)),
    (27, ATTRIBUTES, lambda e: e.set("XattrNames", 0, position=4090)),
    (28, MARKS, lambda e: e.set("HardLinks", 0, inode=4)),
    (28, MARKS, lambda e: e.set("HardLinks", 0, parent=0)),
    (28, MARKS, lambda e: e.set("HardLinks", 1, dentry=14)),
    (29, MARKS, lambda e: e.set("Implied", 0, inode=2)),
    (29, MARKS, lambda e: e.set("Inodes", 9, flags=IMPLIED)),
    (29, MARKS, lambda e: e.set("Inodes", 7, flags=IMPLIED | HOLLOW)),
    (30, HOLES, lambda e: e.set("Extents", 0, blob=1)),
    (31, EXAMPLE, lambda e: e.set("Inodes", 1, dentry=1)),
    (31, MARKS, lambda e: e.set("Inodes", 10, parent=6)),
    (32, EXAMPLE, lambda e: e.set("Inodes", 0, count=4)),
    (32, EXAMPLE, lambda e: e.set("Inodes", 0, count=2)),
    (32, MARKS, lambda e: e.set("Inodes", 4, start=16)),
    (32, MARKS, lambda e: e.set_dentry(9, inode=6)),
    (33, EXAMPLE, lambda e: e.set_superblock(content_codecs=3)),
    (33, EXAMPLE, lambda e: e.set_superblock(metadata_codecs=0)),
    (33, EXAMPLE, lambda e: e.set_superblock(window_log=1)),
    (33, HOLES, lambda e: e.set_superblock(window_log=11)),
    (33, EXAMPLE, lambda e: e.set_superblock(xattr_known=1)),
    *((33, MARKS, lambda e, name=name: e.set_totals(**{name: 77})) for name in (
        "data_bytes", "hole_bytes", "content_plain", "content_stored", "metadata_plain", "metadata_stored",
        "unmappable_bytes", "whiteouts", "opaque")),
    (33, MARKS, lambda e: e.set_totals(kinds=bytes(64))),
    (34, EXAMPLE, lambda e: e.set_superblock(reserved=b"\0\0\1")),
    (34, EXAMPLE, lambda e: e.set_superblock(reserved2=1)),
    (34, EXAMPLE, lambda e: e.set_superblock(unused=b"\1" + bytes(3527))),
    (34, EXAMPLE, lambda e: e.set_head(69, b"\0\0\1")),
    (35, EXAMPLE, lambda e: e.set_head(0, b"\x88")),
    (35, EXAMPLE, lambda e: e.set_head(15, b"\1")),
    (35, EXAMPLE, lambda e: e.set_head(63, b" ")),
]
LEGAL = [
    ("nothing changed", TYPES, lambda e: e),
    ("bits that a reader may ignore", EXAMPLE, lambda e: e.set_superblock(compatible=2**64 - 1)),
    ("another encoder", EXAMPLE, lambda e: e.set_superblock(encoder=b"x" * 64)),
    ("zeros between parts", EXAMPLE, lambda e: e.set_head(69, bytes(100))),
    ("zeros before a block", EXAMPLE, lambda e: e.set_head(64, bytes(3) + b"hello").set_pointer(0, offset=67)),
]


class Rules(unittest.TestCase):
    def broken(self, read, cases):
        for index, (number, name, edit) in enumerate(cases):
            blob = edit(Edited(golden(name))).blob()
            with self.subTest(rule=number, case=index):
                with self.assertRaises(RuleError) as caught:
                    read(blob)
                self.assertEqual(caught.exception.number, number, caught.exception)

    def test_when_it_is_opened(self):
        self.broken(Layer, OPEN)

    def test_when_all_of_it_is_checked(self):
        self.broken(lambda blob: check(Layer(blob)), CHECK)

    def test_without_a_seal(self):
        example = golden("worked-example")
        for number, blob in (
                (1, b""), (1, example + b"\0"), (1, example[4096:]),
                (5, Edited(example).set_superblock(encoder=b"x" * 64).blob(seal=False)),
                (11, example[:500] + b"\xff" + example[501:])):
            with self.assertRaises(RuleError) as caught:
                check(Layer(blob))
            self.assertEqual(caught.exception.number, number)

    def test_legal(self):
        for what, name, edit in LEGAL:
            with self.subTest(what):
                check(Layer(edit(Edited(golden(name))).blob()))

    def test_all_rules_are_tested(self):
        table = {int(line.split("|")[1].strip()[1:]) for line in FORMAT.read_text().splitlines()
                 if line.startswith("| R")}
        elsewhere = {1, 5, 11, 36}
        self.assertEqual({number for number, _, _ in OPEN + CHECK} | elsewhere, table)


if __name__ == "__main__":
    unittest.main()
