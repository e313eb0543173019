"""BLAKE3 (O'Connor, Aumasson, Neves, Wilcox-O'Hearn, 2020): hash, keyed hash, key derivation, and output of any length."""

import struct

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
KEYED_HASH, DERIVE_KEY_CONTEXT, DERIVE_KEY_MATERIAL = 16, 32, 64
MASK = 0xFFFFFFFF
COLUMNS_AND_DIAGONALS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)


def _schedules():
    order = tuple(range(16))
    for _ in range(7):
        yield order
        order = tuple(order[place] for place in PERMUTATION)


SCHEDULES = tuple(_schedules())


def compress(chaining, words, counter, length, flags):
    """The sixteen output words of one block."""
    v = list(chaining) + list(IV[:4]) + [counter & MASK, counter >> 32, length, flags]
    for order in SCHEDULES:
        place = 0
        for a, b, c, d in COLUMNS_AND_DIAGONALS:
            va, vb, vc, vd = v[a], v[b], v[c], v[d]
            va = (va + vb + words[order[place]]) & MASK
            vd ^= va
            vd = (vd >> 16 | vd << 16) & MASK
            vc = (vc + vd) & MASK
            vb ^= vc
            vb = (vb >> 12 | vb << 20) & MASK
            va = (va + vb + words[order[place + 1]]) & MASK
            vd ^= va
            vd = (vd >> 8 | vd << 24) & MASK
            vc = (vc + vd) & MASK
            vb ^= vc
            vb = (vb >> 7 | vb << 25) & MASK
            v[a], v[b], v[c], v[d] = va, vb, vc, vd
            place += 2
    return [v[i] ^ v[i + 8] for i in range(8)] + [v[i + 8] ^ chaining[i] for i in range(8)]


def _words(block):
    return struct.unpack("<16I", block.ljust(64, b"\0"))


def _chunk(key, flags, number, data):
    """The last block of a chunk, not yet compressed: what `compress` takes."""
    chaining = key
    blocks = [data[start:start + 64] for start in range(0, len(data), 64)] or [b""]
    for place, block in enumerate(blocks):
        own = flags | (CHUNK_START if place == 0 else 0) | (CHUNK_END if place == len(blocks) - 1 else 0)
        node = (chaining, _words(block), number, len(block), own)
        if place < len(blocks) - 1:
            chaining = compress(*node)[:8]
    return node


def _tree(key, flags, first_chunk, data):
    """The root of the tree over these bytes: the left part has the largest power of two of whole chunks."""
    if len(data) <= 1024:
        return _chunk(key, flags, first_chunk, data)
    chunks = (len(data) - 1) // 1024
    left_chunks = 1 << (chunks.bit_length() - 1)
    left = compress(*_tree(key, flags, first_chunk, data[:1024 * left_chunks]))[:8]
    right = compress(*_tree(key, flags, first_chunk + left_chunks, data[1024 * left_chunks:]))[:8]
    return (key, tuple(left) + tuple(right), 0, 64, flags | PARENT)


def _output(key, flags, data, length):
    chaining, words, _, size, own = _tree(key, flags, 0, data)
    parts = []
    for counter in range(-(-length // 64)):
        parts.append(struct.pack("<16I", *compress(chaining, words, counter, size, own | ROOT)))
    return b"".join(parts)[:length]


def blake3(data, length=32):
    return _output(IV, 0, data, length)


def keyed_hash(key, data, length=32):
    return _output(struct.unpack("<8I", key), KEYED_HASH, data, length)


def derive_key(context, material, length=32):
    key = _output(IV, DERIVE_KEY_CONTEXT, context.encode(), 32)
    return _output(struct.unpack("<8I", key), DERIVE_KEY_MATERIAL, material, length)
