"""A stream of random numbers: the ChaCha20 key stream (RFC 8439) with a counter of 64 bits and no nonce."""

import struct

MASK = 0xFFFFFFFF
CONSTANTS = struct.unpack("<4I", b"expand 32-byte k")
QUARTERS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)


def block(key_words, counter):
    start = list(CONSTANTS) + list(key_words) + [counter & MASK, counter >> 32, 0, 0]
    x = list(start)
    for _ in range(10):
        for a, b, c, d in QUARTERS:
            xa, xb, xc, xd = x[a], x[b], x[c], x[d]
            xa = (xa + xb) & MASK
            xd ^= xa
            xd = (xd << 16 | xd >> 16) & MASK
            xc = (xc + xd) & MASK
            xb ^= xc
            xb = (xb << 12 | xb >> 20) & MASK
            xa = (xa + xb) & MASK
            xd ^= xa
            xd = (xd << 8 | xd >> 24) & MASK
            xc = (xc + xd) & MASK
            xb ^= xc
            xb = (xb << 7 | xb >> 25) & MASK
            x[a], x[b], x[c], x[d] = xa, xb, xc, xd
    return struct.pack("<16I", *((one + other) & MASK for one, other in zip(x, start)))


class Generator:
    """Bytes of the stream, one after the other. All draws of the protocol are multiples of four bytes."""

    def __init__(self, seed):
        assert len(seed) == 32
        self.key, self.counter, self.rest = struct.unpack("<8I", seed), 0, b""

    def bytes(self, count):
        assert count % 4 == 0
        parts, have = [self.rest], len(self.rest)
        while have < count:
            parts.append(block(self.key, self.counter))
            self.counter += 1
            have += 64
        stream = b"".join(parts)
        self.rest = stream[count:]
        return stream[:count]

    def u64(self):
        return int.from_bytes(self.bytes(8), "little")

    def u128(self):
        return int.from_bytes(self.bytes(16), "little")
