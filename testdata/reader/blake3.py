"""BLAKE3, hash mode, 256 bits, in plain Python.

Chunks do not depend on each other, and neither do the parents of one level of the tree. So
they are hashed side by side: one integer holds the same 32-bit word of all of them, in lanes
of 64 bits, which leaves room for carries. For little-endian machines.
"""
from array import array

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
COLUMNS_AND_DIAGONALS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
CHUNK, BLOCK = 1024, 64


def _lanes(words):
    """One integer with a word in each lane."""
    return int.from_bytes(array("Q", words).tobytes(), "little")


def _compress(values, message, counter, length, flags, lanes):
    """The compression function; `lanes` has a 1 in each lane."""
    mask = 0xFFFFFFFF * lanes
    state = [*values, *(word * lanes for word in IV[:4]), counter, 0, length * lanes, flags * lanes]
    for _ in range(7):
        for column, (a, b, c, d) in enumerate(COLUMNS_AND_DIAGONALS):
            for word, left, right in ((0, 16, 12), (1, 8, 7)):
                state[a] = (state[a] + state[b] + message[2 * column + word]) & mask
                mixed = state[d] ^ state[a]
                state[d] = (mixed >> left | mixed << 32 - left) & mask
                state[c] = (state[c] + state[d]) & mask
                mixed = state[b] ^ state[c]
                state[b] = (mixed >> right | mixed << 32 - right) & mask
        message = [message[index] for index in PERMUTATION]
    return [state[i] ^ state[i + 8] for i in range(8)]


def _chunks(data, first, count, length, root):
    """Chaining values of `count` chunks of `length` bytes each, side by side."""
    lanes, counter = _lanes([1] * count), _lanes(range(first, first + count))
    values = [word * lanes for word in IV]
    starts = range(0, max(length, 1), BLOCK)
    for start in starts:
        size = min(BLOCK, length - start)
        flags = CHUNK_START if start == 0 else 0
        if start == starts[-1]:
            flags |= CHUNK_END | root
        blocks = b"".join(
            data[(first + i) * CHUNK + start:][:size].ljust(BLOCK, b"\0") for i in range(count))
        words = array("I", blocks)
        message = [_lanes(words[word::16]) for word in range(16)]
        values = _compress(values, message, counter, size, flags, lanes)
    return _transpose(values, count)


def _transpose(values, count):
    """Lanes to a list of chaining values."""
    columns = [array("Q", value.to_bytes(8 * count, "little")) for value in values]
    return list(zip(*columns))


def blake3(data):
    """Digest of `data`, 32 bytes."""
    data = bytes(data)
    full = (len(data) - 1) // CHUNK if data else 0
    root = 0 if full else ROOT
    nodes = _chunks(data, 0, full, CHUNK, 0) if full else []
    nodes += _chunks(data, full, 1, len(data) - full * CHUNK, root)
    while len(nodes) > 1:
        pairs = len(nodes) // 2
        words = [nodes[2 * i] + nodes[2 * i + 1] for i in range(pairs)]
        lanes = _lanes([1] * pairs)
        flags = PARENT | (ROOT if len(nodes) == 2 else 0)
        message = [_lanes(column) for column in zip(*words)]
        values = _compress([word * lanes for word in IV], message, 0, BLOCK, flags, lanes)
        nodes = _transpose(values, pairs) + nodes[2 * pairs:]
    return b"".join(word.to_bytes(4, "little") for word in nodes[0])
