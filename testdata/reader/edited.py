"""Blobs with something changed and every digest made right again, to break one rule at a time."""
import struct

from blob import (
    BLOB_RECORD_SIZE, DIGEST_SIZE, DIGESTS, POINTER_SIZE, PROLOGUE_SIZE, RAW, SECTIONS, SUPERBLOCK,
    SUPERBLOCK_SIZE, TOTALS, ZSTD, Pointer, Totals)
from layer import Layer

# Field -> offset and width in its record.
FIELDS = {
    "Inodes": {"mode": (0, 2), "flags": (2, 2), "links": (12, 4), "size": (16, 8), "hole_bytes": (24, 8),
               "mtime_nanoseconds": (40, 4), "xattrs": (44, 4), "start": (48, 8), "count": (56, 4),
               "parent": (60, 4), "dentry": (64, 8)},
    "Dentries": {"inode": (0, 4), "name_end": (4, 2), "kind": (6, 1)},
    "DentryIndex": {"position": (0, 8)},
    "Extents": {"file_offset": (0, 8), "block": (8, 8), "block_offset": (16, 4), "blob": (20, 4)},
    "XattrSets": {"first": (0, 8), "count": (8, 4)},
    "XattrEntries": {"name": (0, 4), "length": (4, 4), "value": (8, 8)},
    "XattrNames": {"position": (0, 8), "length": (8, 4)},
    "HardLinks": {"inode": (0, 4), "parent": (4, 4), "dentry": (8, 8)},
    "Implied": {"inode": (0, 4)},
}


class Edited:
    """A blob taken apart: plain metadata blocks, pointers, and what changes in superblock and totals.

    `blob` puts it together again, with raw metadata blocks.
    """

    def __init__(self, data):
        self.layer = layer = Layer(data)
        first = layer.superblock.content_blocks
        self.content = [layer.pointer(number) for number in range(first)]
        self.metadata = [bytearray(layer.plain(number)) for number in range(first, layer.blocks)]
        self.head = bytearray(data[:layer.superblock.content_end])
        self.superblock, self.totals, self.pointers, self.blob_table = {}, {}, {}, b""

    # Each of these changes something, and returns self.

    def set(self, section, index, **fields):
        first, _, count = self.layer.sections[section]
        each = self.layer.metadata_size // SECTIONS[section][0]
        block, slot = divmod(index, each)
        records = min(each, count - block * each)
        return self._set(first + block, 0, records, slot, FIELDS[section], fields)

    def set_dentry(self, position, **fields):
        """A dentry of the first dentry block."""
        first = self.layer.sections["Dentries"].first
        count = int.from_bytes(self.metadata[first][:4], "little")
        return self._set(first, 4, count, position, FIELDS["Dentries"], fields)

    def _set(self, block, start, records, slot, places, fields):
        for name, value in fields.items():
            offset, width = places[name]
            for byte, part in enumerate(value.to_bytes(width, "little")):
                self.metadata[block][start + (offset + byte) * records + slot] = part
        return self

    def set_plain(self, section, change):
        """Changes the plain bytes of the first block of a section."""
        first = self.layer.sections[section].first
        self.metadata[first] = bytearray(change(bytes(self.metadata[first])))
        return self

    def set_section(self, section, blocks=0, count=0):
        """Adds to the numbers of a section."""
        raw = self.superblock.get("sections", self.layer.superblock.sections)
        numbers = list(struct.unpack("<20Q", raw))
        at = 2 * list(SECTIONS).index(section)
        numbers[at] += blocks
        numbers[at + 1] += count
        return self.set_superblock(sections=struct.pack("<20Q", *numbers))

    def set_superblock(self, **fields):
        self.superblock.update(fields)
        return self

    def set_totals(self, **fields):
        self.totals.update(fields)
        return self

    def set_pointer(self, number, **fields):
        self.pointers[number] = fields
        return self

    def set_head(self, offset, data):
        self.head[offset:offset + len(data)] = data
        return self

    def blob(self, seal=True):
        """The blob; without `seal`, the superblock keeps the digest that it had."""
        old, blob = self.layer.superblock, bytearray(self.head)
        digest = DIGESTS[old.digest_algorithm]
        pointers = list(self.content)
        for plain in map(bytes, self.metadata):
            pointers.append(Pointer(len(blob), len(plain), RAW, len(plain), digest(plain)))
            blob += plain
        made = {"content_offset": PROLOGUE_SIZE, "content_end": len(self.head),
                "metadata_offset": len(self.head), "metadata_end": len(blob), "pointers_offset": len(blob)}
        for number, fields in self.pointers.items():
            pointers[number] = pointers[number]._replace(**fields)
        table = b"".join(
            struct.pack("<QII32s", offset, stored | codec << 24, plain, hashed)
            for offset, stored, codec, plain, hashed in pointers)
        page = POINTER_SIZE << old.page_log
        pages = b"".join(digest(table[at:at + page]) for at in range(0, len(table), page))
        made |= {"pages_offset": len(blob + table), "blobs_offset": len(blob + table + pages),
                 "blob_count": len(self.blob_table) // BLOB_RECORD_SIZE,
                 "tail_digest": digest(pages + self.blob_table)}
        blob += table + pages + self.blob_table
        blob += bytes(-len(blob) % SUPERBLOCK_SIZE)
        length = sum(map(len, self.metadata))
        totals = Totals(*TOTALS.unpack(old.totals))._replace(metadata_plain=length, metadata_stored=length)
        made |= {"blob_length": len(blob) + SUPERBLOCK_SIZE, "metadata_codecs": 1 << RAW,
                 "window_log": old.window_log if any(p.codec == ZSTD for p in self.content) else 0,
                 "totals": TOTALS.pack(*totals._replace(**self.totals))}
        raw = SUPERBLOCK.pack(*old._replace(**{**made, **self.superblock}))
        if seal:
            raw = raw[:-DIGEST_SIZE] + digest(raw[:-DIGEST_SIZE])
        return bytes(blob + raw)
