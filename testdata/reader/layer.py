"""What a blob means: inodes, names, file bytes and extended attributes (FORMAT.md, 7 to 11)."""
import struct
from bisect import bisect_left, bisect_right
from collections import namedtuple

from blob import Blob, ReadError, require

REGULAR, DIRECTORY, SYMLINK, CHAR, BLOCK, FIFO, SOCKET, LINK_BELOW, WHITEOUT = range(1, 10)
KINDS = {0o100000: REGULAR, 0o040000: DIRECTORY, 0o120000: SYMLINK, 0o020000: CHAR, 0o060000: BLOCK,
         0o010000: FIFO, 0o140000: SOCKET, 0: LINK_BELOW}
KIND_NAMES = (None, "file", "directory", "symlink", "char", "block", "fifo", "socket", "link-below", "whiteout")
OPAQUE, IMPLIED, INLINE_EXTENT, HOLLOW = 1, 2, 4, 8
NO_DENTRY, HOLE = 2**64 - 1, 2**32 - 1

INODE = struct.Struct("<HHIIIQQqIIQIIQ")
InodeRecord = namedtuple("InodeRecord", """mode flags uid gid links size hole_bytes mtime_seconds
    mtime_nanoseconds xattrs start count parent dentry""")
Dentry = namedtuple("Dentry", "position name inode kind")
Extent = namedtuple("Extent", "file_offset block block_offset blob")
HardLink = namedtuple("HardLink", "inode parent dentry")


class Inode(InodeRecord):
    """An inode record, its kind, and its index."""

    @classmethod
    def parse(cls, raw, index):
        inode = cls(*INODE.unpack(raw))
        inode.index = index
        require(inode.mode & 0o170000 in KINDS, 16, f"inode {index}: type")
        inode.kind = KINDS[inode.mode & 0o170000]
        return inode

    def has(self, flag):
        return bool(self.flags & flag)

    @property
    def permissions(self):
        return self.mode & 0o7777

    @property
    def device(self):
        return (self.start >> 32, self.start & 0xFFFFFFFF) if self.kind in (CHAR, BLOCK) else (0, 0)


class Layer(Blob):
    """A layer. `others` are the layers of the blob table, by number, for who has them."""

    def __init__(self, data):
        super().__init__(data)
        self.others = [None] * len(self.blob_table)
        self._dentry_blocks = {}

    # Inodes

    def inode(self, index):
        inode = Inode.parse(self.record("Inodes", index), index)
        self._check_inode(inode)
        return inode

    def _check_inode(self, inode):
        index, kind, flags = inode.index, inode.kind, inode.flags

        def need(condition, what):
            require(condition, 16, f"inode {index}: {what}")

        need(kind != LINK_BELOW or inode.mode == 0, "mode")
        allowed = {REGULAR: INLINE_EXTENT, DIRECTORY: OPAQUE | IMPLIED | HOLLOW}.get(kind, 0)
        need(not flags & ~allowed, "flags")
        need(not flags & HOLLOW or flags & IMPLIED, "flags")
        need(inode.links >= 1, "links")
        low, high = {REGULAR: (0, 2**63 - 1), SYMLINK: (0, 4095), LINK_BELOW: (1, 4095)}.get(kind, (0, 0))
        need(low <= inode.size <= high, "size")
        holes_allowed = kind == REGULAR and not flags & INLINE_EXTENT
        need(inode.hole_bytes <= (inode.size if holes_allowed else 0), "hole_bytes")
        need(inode.mtime_nanoseconds < 10**9, "mtime_nanoseconds")
        if kind == REGULAR and inode.size == 0:
            need(not flags & INLINE_EXTENT and inode.count == 0 and inode.start == 0, "empty file")
        if kind == REGULAR and inode.size > 0 and not flags & INLINE_EXTENT:
            need(inode.count >= 1, "no extents")
        require(inode.parent < self.count("Inodes"), 17, f"parent of inode {index}")
        is_root = index == 0
        require((inode.dentry == NO_DENTRY) == is_root, 18, f"inode {index}: dentry")
        require(not is_root or (kind == DIRECTORY and inode.parent == 0), 18, "root")
        if kind == DIRECTORY:
            require(inode.start + inode.count <= self.count("Dentries"), 32, f"dentries of inode {index}")

    # Names

    def first_position(self, block):
        """Position of the first dentry of a dentry block; after the last block, their number."""
        if block == self.count("DentryIndex"):
            return self.count("Dentries")
        return int.from_bytes(self.record("DentryIndex", block), "little")

    def dentry_block(self, block):
        """Plain bytes and number of dentries of a dentry block."""
        if block not in self._dentry_blocks:
            plain, place = self.section_block("Dentries", block), f"dentry block {block}"
            require(len(plain) >= 4, 19, place)
            count = int.from_bytes(plain[:4], "little")
            require(count >= 1 and 4 + 7 * count <= len(plain), 19, place)
            require(self.first_position(0) == 0, 20, "dentry index")
            require(self.first_position(block) + count == self.first_position(block + 1), 20, place)
            self._dentry_blocks[block] = plain, count
        return self._dentry_blocks[block]

    def block_of(self, position):
        """The dentry block of a position."""
        block = bisect_right(range(self.count("DentryIndex")), position, key=self.first_position) - 1
        require(block >= 0, 20, "dentry index")
        return block

    def dentry(self, position):
        """The dentry at a position of the layer."""
        require(position < self.count("Dentries"), 32, f"dentry {position}")
        block = self.block_of(position)
        plain, count = self.dentry_block(block)
        slot, place = position - self.first_position(block), f"dentry {position}"
        require(slot < count, 20, place)

        def record(slot):
            return struct.unpack("<IHB", plain[4 + slot:4 + 7 * count:count])

        inode, end, kind = record(slot)
        begin = record(slot - 1)[1] if slot else 0
        names = plain[4 + 7 * count:]
        require(begin <= end <= len(names), 19, place)
        name = names[begin:end]
        require(1 <= len(name) <= 255 and not {0x2F, 0} & set(name) and name not in (b".", b".."), 21, place)
        require(1 <= kind <= 9 and (inode == 0) == (kind == WHITEOUT), 23, place)
        require(inode < self.count("Inodes"), 17, place)
        return Dentry(position, name, inode, kind)

    def entries(self, directory):
        """The dentries of a directory, in order."""
        for position in range(directory.start, directory.start + directory.count):
            yield self.dentry(position)

    def lookup(self, directory, name):
        """The dentry of that name in a directory, or None. Reads few blocks."""
        first, end = directory.start, directory.start + directory.count
        if first == end:
            return None

        inner = range(self.block_of(first) + 1, self.block_of(end - 1) + 1)
        block = inner.start - 1 + bisect_right(
            inner, name, key=lambda block: self.dentry(self.first_position(block)).name)
        there = range(max(first, self.first_position(block)), min(end, self.first_position(block + 1)))
        slot = bisect_left(there, name, key=lambda position: self.dentry(position).name)
        dentry = self.dentry(there[slot]) if slot < len(there) else None
        return dentry if dentry and dentry.name == name else None

    def target(self, dentry):
        """The inode of a dentry that is no whiteout."""
        inode = self.inode(dentry.inode)
        require(inode.kind == dentry.kind, 23, f"dentry {dentry.position}")
        return inode

    def path(self, index):
        """Path of an inode, by its first name: a tuple of names."""
        names = []
        while index != 0:
            inode, place = self.inode(index), f"inode {index}"
            require(inode.dentry < self.count("Dentries"), 31, place)
            dentry = self.dentry(inode.dentry)
            require(dentry.inode == index, 31, place)
            require(inode.parent < index, 32, f"parent of inode {index}")
            names.append(dentry.name)
            index = inode.parent
        return tuple(reversed(names))

    # Content

    def content_block(self, number):
        require(number < self.superblock.content_blocks, 25, f"block {number}")
        return self.plain(number)

    def extent(self, index):
        return Extent(*struct.unpack("<QQII", self.record("Extents", index)))

    def extent_at(self, inode, offset):
        """The extent that covers a byte of a file, and where it ends."""
        if inode.has(INLINE_EXTENT):
            return Extent(0, inode.start, inode.count, 0), inode.size
        numbers = range(inode.start, inode.start + inode.count)
        index = bisect_right(numbers, offset, key=lambda number: self.extent(number).file_offset) - 1
        place = f"inode {inode.index}, byte {offset}"
        require(index >= 0, 24, place)
        extent = self.extent(numbers[index])
        is_last = index + 1 == len(numbers)
        end = inode.size if is_last else self.extent(numbers[index + 1]).file_offset
        require(extent.file_offset <= offset < end <= inode.size, 24, place)
        return extent, end

    def blob_of(self, extent, place):
        """The layer whose blocks an extent names."""
        if extent.blob == 0:
            return self
        require(extent.blob <= len(self.blob_table), 30, place)
        other = self.others[extent.blob - 1]
        if other is None:
            raise ReadError(f"{place}: needs blob {self.blob_table[extent.blob - 1].blob_sha256.hex()}")
        return other

    def read_at(self, inode, offset):
        """The bytes of a file from `offset` on, at least one: (bytes, end), or (None, end) of a hole."""
        extent, end = self.extent_at(inode, offset)
        if extent.blob == HOLE:
            return None, end
        place = f"inode {inode.index}, byte {offset}"
        blob = self.blob_of(extent, place)
        step, inside = divmod(extent.block_offset + offset - extent.file_offset, blob.block_size)
        plain = blob.content_block(extent.block + step)
        require(inside < len(plain), 25, place)
        wanted, there = end - offset, len(plain) - inside
        require(wanted <= there or len(plain) == blob.block_size, 25, place)
        data = plain[inside:inside + wanted]
        return data, offset + len(data)

    def read(self, inode):
        """The whole file, piece by piece: (start, end, bytes or None)."""
        offset = 0
        while offset < inode.size:
            data, end = self.read_at(inode, offset)
            yield offset, end, data
            offset = end

    # Strings and tables

    def link(self, inode):
        """Target of a symbolic link, or path of a link-below."""
        return self.heap(inode.start, inode.size, f"target of inode {inode.index}")

    def xattr_name(self, number):
        position, length = struct.unpack("<QI", self.record("XattrNames", number))
        require(1 <= length <= 255, 26, f"xattr name {number}")
        name = self.heap(position, length, f"xattr name {number}")
        require(b"\0" not in name, 26, f"xattr name {number}")
        return name

    def xattr_set(self, number):
        """First entry and number of entries of a set."""
        first, count = struct.unpack("<QI", self.record("XattrSets", number))
        require(first + count <= self.count("XattrEntries"), 26, f"xattr set {number}")
        return first, count

    def xattr_entry(self, number):
        """Number of the name, and value."""
        name, length, position = struct.unpack("<IIQ", self.record("XattrEntries", number))
        return name, self.heap(position, length, f"xattr entry {number}")

    def xattrs(self, inode):
        """[(name, value)], sorted by name."""
        if inode.xattrs == 0:
            return []
        first, count = self.xattr_set(inode.xattrs - 1)
        entries = [self.xattr_entry(number) for number in range(first, first + count)]
        return [(self.xattr_name(name), value) for name, value in entries]

    def hard_link(self, number):
        return HardLink(*struct.unpack("<IIQ", self.record("HardLinks", number)))

    def implied(self, number):
        return int.from_bytes(self.record("Implied", number), "little")
