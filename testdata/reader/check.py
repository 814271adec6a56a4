"""Checks a whole blob against section 18, the rules that ask all of it included."""
from collections import Counter, defaultdict

from blob import (
    BLOB_RECORD_SIZE, DIGEST_SIZE, POINTER_SIZE, PROLOGUE_SIZE, PROLOGUE_TEXT, SUPERBLOCK_SIZE, TOTALS, ZSTD,
    Totals, decode, require, zstd_frame)
from layer import (
    DIRECTORY, HOLE, HOLLOW, IMPLIED, INLINE_EXTENT, LINK_BELOW, OPAQUE, REGULAR, SYMLINK, WHITEOUT, Extent,
    HardLink)

SATURATED = 2**64 - 1
XATTR_BITS = (
    (b"system.posix_acl_access", True, 2), (b"system.posix_acl_default", True, 4), (b"user.", False, 8),
    (b"trusted.", False, 16), (b"security.", False, 32), (b"system.", False, 64))


def check(layer):
    """Raises RuleError for the first broken rule. Blocks of other blobs are checked where the layer has them."""
    return Check(layer).run()


class Check:
    def __init__(self, layer):
        self.layer, self.superblock = layer, layer.superblock
        self.totals = Counter()

    def run(self):
        self.blocks()
        self.inodes = [self.layer.inode(index) for index in range(self.layer.count("Inodes"))]
        self.dentry_blocks()
        self.tree()
        self.links()
        self.implied()
        for inode in self.inodes:
            self.inode(inode)
        self.xattrs()
        self.sums()
        self.prologue()

    def blocks(self):
        """Every block decodes; codecs and windows; bytes of no part or block are zero."""
        sb, window = self.superblock, 0
        codecs = {"content": 0, "metadata": 0}
        used = [(0, PROLOGUE_SIZE), (sb.pointers_offset, POINTER_SIZE * self.layer.blocks),
                (sb.pages_offset, DIGEST_SIZE * self.layer.pages),
                (sb.blobs_offset, BLOB_RECORD_SIZE * sb.blob_count),
                (sb.blob_length - SUPERBLOCK_SIZE, SUPERBLOCK_SIZE)]
        for number in range(self.layer.blocks):
            pointer, stored = self.layer.stored(number)
            decode(pointer.codec, stored, pointer.plain, f"block {number}")
            part = "content" if number < sb.content_blocks else "metadata"
            codecs[part] |= 1 << pointer.codec
            self.totals[part + "_plain"] += pointer.plain
            self.totals[part + "_stored"] += pointer.stored
            used.append((pointer.offset, pointer.stored))
            if pointer.codec == ZSTD:
                window = max(window, zstd_frame(stored, pointer.plain, f"block {number}"))
        require(codecs["content"] == sb.content_codecs, 33, "content_codecs")
        require(codecs["metadata"] == sb.metadata_codecs, 33, "metadata_codecs")
        require(window <= 1 << sb.window_log if window else sb.window_log == 0, 33, "window_log")
        at = 0
        for offset, length in sorted(used):
            require(not any(self.layer.bytes(at, max(0, offset - at))), 34, f"bytes {at} to {offset}")
            at = max(at, offset + length)
        require(not any(sb.reserved + sb.unused) and sb.reserved2 == 0, 34, "superblock")

    def dentry_blocks(self):
        layer, position = self.layer, 0
        for block in range(layer.count("DentryIndex")):
            require(layer.first_position(block) == position, 20, f"dentry index {block}")
            plain, count = layer.dentry_block(block)
            slot = 4 + 5 * count - 1
            last = plain[slot] | plain[slot + count] << 8
            require(last == len(plain) - 4 - 7 * count, 19, f"dentry block {block}: last name")
            position += count
        require(position == layer.count("Dentries"), 20, "last dentry block")

    def tree(self):
        """One tree in tree order; inodes in the order of their first names."""
        layer, stack, next_position = self.layer, [self.inodes[0]], 0
        self.names, self.subdirectories = defaultdict(list), Counter()
        while stack:
            directory, children, last = stack.pop(), [], b""
            if directory.count:
                require(directory.start == next_position, 32, f"dentries of inode {directory.index}")
            next_position += directory.count
            for dentry in layer.entries(directory):
                require(dentry.name > last, 22, f"dentry {dentry.position}")
                last = dentry.name
                if dentry.kind == WHITEOUT:
                    self.totals["whiteouts"] += 1
                    continue
                inode = layer.target(dentry)
                self.names[inode.index].append((directory.index, dentry.position))
                if inode.kind == DIRECTORY:
                    require(len(self.names[inode.index]) == 1 and inode.index, 32, f"dentry {dentry.position}")
                    children.append(inode)
                    self.subdirectories[directory.index] += 1
            stack += reversed(children)
        require(next_position == layer.count("Dentries"), 32, "dentries of no directory")
        last = -1
        for inode in self.inodes[1:]:
            require(self.names[inode.index], 32, f"inode {inode.index} has no name")
            first = min(self.names[inode.index], key=lambda name: name[1])
            require(first == (inode.parent, inode.dentry), 31, f"inode {inode.index}")
            require(inode.parent < inode.index and inode.dentry > last, 32, f"order of inode {inode.index}")
            last = inode.dentry

    def links(self):
        expected = []
        for inode in self.inodes:
            names = sorted(self.names[inode.index], key=lambda name: name[1])
            is_directory = inode.kind == DIRECTORY
            links = 2 + self.subdirectories[inode.index] if is_directory else len(names)
            require(inode.links == links, 16, f"links of inode {inode.index}")
            if not is_directory and len(names) > 1:
                expected += [HardLink(inode.index, *name) for name in names]
        recorded = [self.layer.hard_link(number) for number in range(self.layer.count("HardLinks"))]
        require(recorded == expected, 28, "hard links")

    def implied(self):
        layer, hollow = self.layer, set()
        for inode in reversed(self.inodes):
            if inode.has(IMPLIED) and inode.index and all(
                    dentry.kind == WHITEOUT or dentry.inode in hollow for dentry in layer.entries(inode)):
                hollow.add(inode.index)
            require((inode.index in hollow) == inode.has(HOLLOW), 29, f"inode {inode.index}: hollow")
        flagged = [inode.index for inode in self.inodes if inode.has(IMPLIED)]
        require([layer.implied(i) for i in range(layer.count("Implied"))] == flagged, 29, "implied directories")

    def inode(self, inode):
        self.totals[inode.kind] += 1
        self.totals["opaque"] += inode.has(OPAQUE)
        if inode.kind in (SYMLINK, LINK_BELOW):
            self.layer.link(inode)
        if inode.kind == REGULAR:
            self.file(inode)
        self.layer.xattrs(inode)

    def file(self, inode):
        layer, place = self.layer, f"inode {inode.index}"
        if inode.has(INLINE_EXTENT):
            extents = [Extent(0, inode.start, inode.count, 0)]
        else:
            extents = [layer.extent(number) for number in range(inode.start, inode.start + inode.count)]
        offsets = [extent.file_offset for extent in extents] + [inode.size]
        require(offsets[0] == 0 and all(a < b for a, b in zip(offsets, offsets[1:])), 24, place)
        holes, after = 0, None
        for extent, end in zip(extents, offsets[1:]):
            length = end - extent.file_offset
            if extent.blob == HOLE:
                require(after != HOLE, 24, f"{place}: holes that could be one")
                require(extent.block == extent.block_offset == 0, 25, f"{place}: hole")
                holes, after = holes + length, HOLE
            else:
                require(extent.blob <= len(layer.blob_table), 30, place)
                require((extent.blob, extent.block, extent.block_offset) != after, 24,
                        f"{place}: extents that could be one")
                after = self.extent(extent, length, place)
        require(holes == inode.hole_bytes, 16, f"{place}: hole_bytes")
        data = inode.size - holes
        self.totals["data_bytes"] += data
        self.totals["hole_bytes"] += holes
        if data and not self.is_mappable(inode, extents):
            self.totals["unmappable_bytes"] += data

    def extent(self, extent, length, place):
        """Checks the blocks of an extent; returns the place that follows it, where that is known."""
        blob = self.layer if extent.blob == 0 else self.layer.others[extent.blob - 1]
        if blob is None:
            return None
        steps, inside = divmod(extent.block_offset + length, blob.block_size)
        blocks = steps + (inside > 0)
        place = f"{place}: extent at {extent.file_offset}"
        require(extent.block + blocks <= blob.superblock.content_blocks, 25, place)
        lengths = [blob.pointer(extent.block + step).plain for step in range(blocks)]
        require(extent.block_offset < lengths[0], 25, place)
        require(all(plain == blob.block_size for plain in lengths[:-1]), 25, place)
        require(lengths[-1] >= (inside or blob.block_size), 25, place)
        return extent.blob, extent.block + steps, inside

    def is_mappable(self, inode, extents):
        if not 12 <= self.superblock.block_log <= 19:
            return False
        if inode.has(INLINE_EXTENT) and inode.count + inode.size <= self.layer.block_size:
            return True
        return all(extent.blob == HOLE or extent.block_offset == 0 for extent in extents)

    def xattrs(self):
        layer, known = self.layer, 0
        names = [layer.xattr_name(number) for number in range(layer.count("XattrNames"))]
        require(all(a < b for a, b in zip(names, names[1:])), 26, "xattr names")
        for number in range(layer.count("XattrEntries")):
            name, _ = layer.xattr_entry(number)
            require(name < len(names), 26, f"xattr entry {number}")
        for number in range(layer.count("XattrSets")):
            first, count = layer.xattr_set(number)
            require(count >= 1, 26, f"xattr set {number}")
            numbers = [layer.xattr_entry(entry)[0] for entry in range(first, first + count)]
            require(all(a < b for a, b in zip(numbers, numbers[1:])), 26, f"xattr set {number}")
        for name in names:
            bits = (bit for text, whole, bit in XATTR_BITS if (name == text if whole else name.startswith(text)))
            known |= 1 | next(bits, 128)
        require(known == self.superblock.xattr_known, 33, "xattr_known")

    def sums(self):
        recorded = Totals(*TOTALS.unpack(self.superblock.totals))
        counts = b"".join(self.totals[kind].to_bytes(8, "little") for kind in range(1, 9))
        for name, value in recorded._asdict().items():
            expected = counts if name == "kinds" else min(self.totals[name], SATURATED)
            require(value == expected, 33, name)

    def prologue(self):
        sb = self.superblock
        logs = bytes([sb.block_log, sb.metadata_log, sb.digest_algorithm, 0])
        expected = b"\x89microfs" + sb.version.to_bytes(4, "little") + logs + PROLOGUE_TEXT
        require(self.layer.bytes(0, PROLOGUE_SIZE) == expected, 35, "prologue")
