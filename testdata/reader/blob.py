"""A blob: superblock, block pointers, blocks and the records of sections (FORMAT.md, 3 to 6, 12, 13)."""
import hashlib
import lzma
import struct
import zlib
from collections import namedtuple

import zstandard

from blake3 import blake3


class ReadError(Exception):
    """Something that cannot be read."""


class RuleError(ReadError):
    """A broken rule of section 18, and where."""

    def __init__(self, number, place):
        super().__init__(f"R{number}: {place}")
        self.number, self.place = number, place


class NoDecoder(ReadError):
    """A block of a codec that this reader cannot decode; no broken rule."""


def require(condition, number, place):
    if not condition:
        raise RuleError(number, place)


def ceil_div(a, b):
    return -(-a // b)


PROLOGUE_SIZE, SUPERBLOCK_SIZE, POINTER_SIZE, DIGEST_SIZE, BLOB_RECORD_SIZE = 64, 4096, 48, 32, 72
PROLOGUE_TEXT = b"microfs layer; its superblock is the last 4 KiB\n"
DIGESTS = {1: blake3, 2: lambda data: hashlib.sha256(data).digest()}
RAW, ZSTD, LZ4, ZLIB, XZ, LZO = range(6)
CODEC_NAMES = ("raw", "zstd", "lz4", "zlib", "xz", "lzo")

# Section -> bytes of a record and the rule of a record that is not there.
SECTIONS = {
    "Inodes": (72, 17), "Dentries": (None, 19), "DentryIndex": (8, 20), "Extents": (24, 24),
    "XattrSets": (12, 26), "XattrEntries": (16, 26), "XattrNames": (12, 26), "Heap": (None, 27),
    "HardLinks": (16, 28), "Implied": (4, 29)}

SUPERBLOCK = struct.Struct("<8sIIQQQ5B3sII9QII32s160s136sII64s3528s32s")
Superblock = namedtuple("Superblock", """magic version superblock_size incompatible compatible blob_length
    block_log metadata_log digest_algorithm page_log window_log reserved content_codecs metadata_codecs
    content_blocks metadata_blocks content_offset content_end metadata_offset metadata_end
    pointers_offset pages_offset blobs_offset blob_count reserved2 tail_digest sections totals
    xattr_known xattr_names encoder unused digest""")
TOTALS = struct.Struct("<7Q64sQQ")
Totals = namedtuple("Totals", """data_bytes hole_bytes content_plain content_stored metadata_plain
    metadata_stored unmappable_bytes kinds whiteouts opaque""")
Section = namedtuple("Section", "first blocks count")
Pointer = namedtuple("Pointer", "offset stored codec plain digest")
BlobRecord = namedtuple("BlobRecord", "blob_sha256 superblock_sha256 length")


class Blob:
    """A blob that was opened: its superblock, page digests and blob table are right."""

    def __init__(self, data):
        self.data = data
        self._open()
        self._read_tail()
        self._pages, self._content, self._metadata = {}, {}, {}

    def _open(self):
        size = len(self.data)
        require(size % 4096 == 0 and size >= 8192, 1, "length of the blob")
        raw = self.data[-SUPERBLOCK_SIZE:]
        self.superblock = sb = Superblock(*SUPERBLOCK.unpack(raw))
        require(sb.magic == b"\x89mfs-end", 2, "superblock")
        require(sb.version == 1 and sb.superblock_size == SUPERBLOCK_SIZE, 3, "superblock")
        require(sb.incompatible == 0, 4, "superblock")
        require(sb.digest_algorithm in DIGESTS, 7, "digest_algorithm")
        self.digest = DIGESTS[sb.digest_algorithm]
        require(self.digest(raw[:-DIGEST_SIZE]) == sb.digest, 5, "superblock")
        require(sb.blob_length == size, 6, "superblock")
        require(9 <= sb.block_log <= 20, 7, "block_log")
        require(12 <= sb.metadata_log <= 16, 7, "metadata_log")
        require(4 <= sb.page_log <= 10, 7, "page_log")
        require(sb.window_log <= 20, 7, "window_log")
        self.block_size, self.metadata_size = 1 << sb.block_log, 1 << sb.metadata_log
        self._open_sections()
        require(sb.blob_count <= 4096, 30, "blob_count")
        self._open_parts()

    def _open_sections(self):
        sb, numbers = self.superblock, struct.unpack("<20Q", self.superblock.sections)
        self.sections, first = {}, 0
        for index, (name, (width, _)) in enumerate(SECTIONS.items()):
            blocks, count = numbers[2 * index:2 * index + 2]
            self.sections[name] = Section(first, blocks, count)
            first += blocks
            if name == "Dentries":
                fits = blocks <= count <= blocks * self.metadata_size // 8
            else:
                fits = blocks == ceil_div(count, self.metadata_size // (width or 1))
            require(fits, 9, f"section {name}")
        require(first == sb.metadata_blocks, 9, "metadata_blocks")
        require(1 <= self.count("Inodes") <= 2**32 - 2, 9, "number of inodes")
        require(self.count("DentryIndex") == self.sections["Dentries"].blocks, 9, "dentry index")
        require(self.count("XattrNames") == sb.xattr_names, 9, "xattr_names")

    def _open_parts(self):
        sb = self.superblock
        self.blocks = sb.content_blocks + sb.metadata_blocks
        self.pages = ceil_div(self.blocks, 1 << sb.page_log)
        order = [
            PROLOGUE_SIZE, sb.content_offset, sb.content_end, sb.metadata_offset, sb.metadata_end,
            sb.pointers_offset, sb.pointers_offset + POINTER_SIZE * self.blocks,
            sb.pages_offset, sb.pages_offset + DIGEST_SIZE * self.pages,
            sb.blobs_offset, sb.blobs_offset + BLOB_RECORD_SIZE * sb.blob_count,
            sb.blob_length - SUPERBLOCK_SIZE]
        require(order == sorted(order) and order[-1] < 2**64, 8, "order of the parts")
        require(sb.content_blocks <= sb.content_end - sb.content_offset, 8, "content_blocks")
        require(sb.metadata_blocks <= sb.metadata_end - sb.metadata_offset, 8, "metadata_blocks")

    def _read_tail(self):
        sb = self.superblock
        pages = self.bytes(sb.pages_offset, DIGEST_SIZE * self.pages)
        blobs = self.bytes(sb.blobs_offset, BLOB_RECORD_SIZE * sb.blob_count)
        require(self.digest(pages + blobs) == sb.tail_digest, 10, "page digests and blob table")
        self._page_digests = pages
        self.blob_table = [BlobRecord(*record) for record in struct.iter_unpack("<32s32sQ", blobs)]

    def bytes(self, offset, length):
        return self.data[offset:offset + length]

    def count(self, section):
        return self.sections[section].count

    def page(self, number):
        """The verified bytes of a page of block pointers."""
        if number not in self._pages:
            per_page = 1 << self.superblock.page_log
            first, end = number * per_page, min((number + 1) * per_page, self.blocks)
            raw = self.bytes(
                self.superblock.pointers_offset + POINTER_SIZE * first, POINTER_SIZE * (end - first))
            recorded = self._page_digests[DIGEST_SIZE * number:][:DIGEST_SIZE]
            require(self.digest(raw) == recorded, 11, f"page {number}")
            self._pages[number] = raw
        return self._pages[number]

    def pointer(self, number):
        """The pointer of a block by its number; the caller knows that there is one."""
        sb, place = self.superblock, f"pointer of block {number}"
        page, slot = divmod(number, 1 << sb.page_log)
        offset, stored, plain, digest = struct.unpack_from("<QII32s", self.page(page), POINTER_SIZE * slot)
        stored, codec = stored & 0xFFFFFF, stored >> 24
        if number < sb.content_blocks:
            start, end, size = sb.content_offset, sb.content_end, self.block_size
        else:
            start, end, size = sb.metadata_offset, sb.metadata_end, self.metadata_size
        require(codec < len(CODEC_NAMES), 12, place)
        require(1 <= stored <= plain <= size, 12, place)
        require(codec != RAW or stored == plain, 12, place)
        require(start <= offset and offset + stored <= end, 12, place)
        return Pointer(offset, stored, codec, plain, digest)

    def stored(self, number):
        """Pointer and verified stored bytes of a block."""
        pointer = self.pointer(number)
        stored = self.bytes(pointer.offset, pointer.stored)
        require(self.digest(stored) == pointer.digest, 13, f"block {number}")
        return pointer, stored

    def plain(self, number):
        """The plain bytes of a block. Metadata blocks are kept, and the last content block."""
        is_content = number < self.superblock.content_blocks
        cache = self._content if is_content else self._metadata
        if number not in cache:
            pointer, stored = self.stored(number)
            if is_content:
                cache.clear()
            cache[number] = decode(pointer.codec, stored, pointer.plain, f"block {number}")
        return cache[number]

    def section_block(self, section, block):
        """Plain bytes of a section's block; for all but dentries it is as long as its records."""
        first, _, count = self.sections[section]
        width = SECTIONS[section][0] or 1
        number = self.superblock.content_blocks + first + block
        if section != "Dentries":
            each = self.metadata_size // width
            records = min(each, count - block * each)
            require(self.pointer(number).plain == records * width, 15, f"block {block} of {section}")
        return self.plain(number)

    def record(self, section, index):
        """Record `index` of a section with a record size."""
        width, rule = SECTIONS[section]
        count = self.count(section)
        require(0 <= index < count, rule, f"{section}[{index}]")
        each = self.metadata_size // width
        block, slot = divmod(index, each)
        return self.section_block(section, block)[slot::min(each, count - block * each)]

    def heap(self, position, length, place):
        """A string of the heap."""
        size, end = self.metadata_size, position + length
        require(length <= 65536 and end <= self.count("Heap"), 27, place)
        if length == 0:
            return b""
        first, last = position // size, (end - 1) // size
        require(first == last if length <= size else position % size == 0, 27, place)
        whole = b"".join(self.section_block("Heap", block) for block in range(first, last + 1))
        return whole[position - first * size:][:length]


def decode(codec, stored, plain, place):
    """Stored bytes to exactly `plain` bytes (R14)."""
    try:
        if codec == RAW:
            result = stored
        elif codec == ZSTD:
            size = zstandard.frame_content_size(stored)
            require(size in (-1, plain), 14, place)
            decoder = zstandard.ZstdDecompressor()
            result = decoder.decompress(stored, max_output_size=plain, allow_extra_data=False)
        elif codec in (ZLIB, XZ):
            decoder = zlib.decompressobj() if codec == ZLIB else lzma.LZMADecompressor(lzma.FORMAT_XZ)
            result = decoder.decompress(stored, plain + 1)
            require(decoder.eof and not decoder.unused_data, 14, place)
        else:
            raise NoDecoder(f"{place}: no decoder for {CODEC_NAMES[codec]}")
    except (zstandard.ZstdError, zlib.error, lzma.LZMAError) as error:
        raise RuleError(14, f"{place}: {error}") from error
    require(len(result) == plain, 14, place)
    return result


def zstd_frame(stored, plain, place):
    """Checks that a zstd block is one frame as section 13 wants it (R36); returns its window."""
    def need(condition, what):
        require(condition, 36, f"{place}: {what}")

    need(stored[:4] == b"\x28\xb5\x2f\xfd", "no zstd frame")
    need(len(stored) >= 6, "short frame")
    flags, at = stored[4], 5
    single = bool(flags & 0x20)
    need(not flags & 0x08, "reserved bit")
    need(flags & 0x04, "no checksum")
    need(not flags & 0x03, "dictionary id")
    window = None
    if not single:
        exponent, mantissa = stored[at] >> 3, stored[at] & 7
        window = (1 << 10 + exponent) + (1 << 10 + exponent) // 8 * mantissa
        at += 1
    width = (1 if single else 0, 2, 4, 8)[flags >> 6]
    need(width, "no content size")
    size = int.from_bytes(stored[at:at + width], "little") + (256 if width == 2 else 0)
    need(size == plain, "content size")
    window = size if single else window
    need(window <= 1 << 20, "window")
    at, last = at + width, False
    while not last:
        need(at + 3 <= len(stored), "blocks")
        header = int.from_bytes(stored[at:at + 3], "little")
        last, kind = header & 1, header >> 1 & 3
        need(kind != 3, "block type")
        at += 3 + (1 if kind == 1 else header >> 3)
    need(at + 4 == len(stored), "more than one frame")
    return window
