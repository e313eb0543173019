"""Oblivious transfer: 128 base transfers, trees of depth 4 or 8 over them, and the extension.

The party that chooses is the extension's receiver: the client, and in the other direction the server.
"""

from . import aes128, ristretto
from .blake3 import derive_key
from .randomness import context, generator

BASE_TRANSFERS = 128
BATCH, BLOCK, MASKING = 1 << 18, 2048, 128
CHECK_BYTES = 16 + 32


def scalar(generator):
    return int.from_bytes(generator.bytes(64), "little") % ristretto.ORDER


def xor(one, other):
    return bytes(a ^ b for a, b in zip(one, other))


def base_key(session, number, points, shared):
    material = session + number.to_bytes(4, "little") + points[0] + points[1] + ristretto.encode(shared)
    return derive_key(context("ot base key"), material)


def children(session, tree, level, node):
    both = derive_key(context("ot extension tree node"), session + bytes([tree, level]) + node, 64)
    return both[:32], both[32:]


def leaf(session, tree, node):
    both = derive_key(context("ot extension leaf stream"), session + bytes([tree]) + node)
    return aes128.expand(int.from_bytes(both[:16], "little")), int.from_bytes(both[16:], "little")


def stream(leaf_key, first, count):
    """`count` blocks of 128 bits as one number, transfer 0 in the lowest bit."""
    keys, whitening = leaf_key
    bits = 0
    for place in range(count):
        bits |= aes128.encrypt(keys, first + place ^ whitening) << 128 * place
    return bits


def batches(transfers):
    return [min(BATCH, transfers - start) for start in range(0, transfers, BATCH)]


def labels_from(columns, count):
    """Label j has bit c of its 128 where column c has bit j."""
    rows = [format(column & (1 << count) - 1, "b").zfill(count) for column in columns]
    # The last digit of a row is transfer 0; the highest column is the highest bit.
    return [int("".join(row[count - 1 - j] for row in reversed(rows)), 2) for j in range(count)]


def message_bytes(transfers, depth):
    """Length of the corrections of all batches: one bit for each tree and transfer, and the check."""
    return sum(BASE_TRANSFERS // depth * (count + MASKING) // 8 + CHECK_BYTES for count in batches(transfers))


def reversed_session(session):
    """The id of the transfers in which the server chooses."""
    return derive_key(context("ot reverse transfers"), session)


def multiply(left, right):
    """In the field of 2^128 elements, modulo x^128 + x^7 + x^2 + x + 1; bit i stands for x^i."""
    product = 0
    for bit in range(128):
        if right >> bit & 1:
            product ^= left << bit
    for bit in range(254, 127, -1):
        if product >> bit & 1:
            product ^= (1 << 128 | 0x87) << bit - 128
    return product


class Check:
    """h of a column: the sum of its words of 128 bits, each times its challenge, and its word of masking transfers."""

    def __init__(self, session, first_cipher, count, corrections):
        place = session + first_cipher.to_bytes(8, "little") + count.to_bytes(8, "little")
        stream = generator(derive_key(context("ot extension check challenge"), place + corrections))
        self.challenges = [stream.u128() for _ in range(-(-count // 128))]

    def hash(self, bits, masking):
        total = masking
        for place, challenge in enumerate(self.challenges):
            total ^= multiply(bits >> 128 * place & (1 << 128) - 1, challenge)
        return total

    @staticmethod
    def digest(hashes):
        return derive_key(context("ot extension check digest"), b"".join(value.to_bytes(16, "little") for value in hashes))


class Receiver:
    """Who chooses: base sender, then owner of whole trees."""

    def __init__(self, session, depth, generator):
        self.session, self.depth, self.generator = session, depth, generator
        self.scalar = scalar(generator)
        self.point = ristretto.multiply(self.scalar, ristretto.BASE)
        self.message = ristretto.encode(self.point)
        self.next_cipher = 0

    def finish(self, answer):
        """The sums of the trees."""
        assert len(answer) == 32 * BASE_TRANSFERS
        square = ristretto.multiply(self.scalar, self.point)
        keys = []
        for number in range(BASE_TRANSFERS):
            data = answer[32 * number:32 * number + 32]
            point = ristretto.decode(data)
            assert point is not None and data != self.message and data != bytes(32)
            shared = ristretto.multiply(self.scalar, point)
            other = ristretto.add(shared, ristretto.negate(square))
            keys.append([base_key(self.session, number, (self.message, data), each) for each in (shared, other)])
        sums, self.leaves = [], []
        for tree in range(BASE_TRANSFERS // self.depth):
            nodes = [self.generator.bytes(32)]
            for level in range(self.depth):
                nodes = [child for node in nodes for child in children(self.session, tree, level, node)]
                left, right = bytes(32), bytes(32)
                for place, node in enumerate(nodes):
                    left, right = (xor(left, node), right) if place % 2 == 0 else (left, xor(right, node))
                key_left, key_right = keys[self.depth * tree + level]
                sums += [xor(right, key_left), xor(left, key_right)]
            self.leaves.append([leaf(self.session, tree, node) for node in nodes])
        self.masking = self.generator.bytes(32)
        return b"".join(sums)

    def columns(self, first_cipher, size, choices):
        """The message of one block, and its 128 columns."""
        message, columns = b"", []
        for leaves in self.leaves:
            streams = [stream(one, first_cipher, -(-size // 128)) for one in leaves]
            total = choices
            for one in streams:
                total ^= one
            message += (total & (1 << size) - 1).to_bytes(size // 8, "little")
            for bit in range(self.depth):
                column = 0
                for number, one in enumerate(streams):
                    column ^= one if number >> bit & 1 else 0
                columns.append(column & (1 << size) - 1)
        return message, columns

    def extend(self, choices):
        """The corrections of these choices (packed bits), and one label per choice."""
        message, labels, done = b"", [], 0
        for count in batches(8 * len(choices)):
            first, bits = self.next_cipher, int.from_bytes(choices[done // 8:(done + count) // 8], "little")
            corrections, whole = b"", [0] * BASE_TRANSFERS
            for start in range(0, count, BLOCK):
                size = min(BLOCK, count - start)
                own, columns = self.columns(first + start // 128, size, bits >> start & (1 << size) - 1)
                corrections += own
                labels += labels_from(columns, size)
                whole = [total | column << start for total, column in zip(whole, columns)]
            after = first + -(-count // 128)
            place = self.masking + self.session + first.to_bytes(8, "little")
            mask = int.from_bytes(derive_key(context("ot extension check mask"), place, 16), "little")
            own, masking = self.columns(after, MASKING, mask)
            corrections += own
            check = Check(self.session, first, count, corrections)
            message += corrections + check.hash(bits, mask).to_bytes(16, "little")
            message += check.digest([check.hash(column, last) for column, last in zip(whole, masking)])
            self.next_cipher = after + 1
            done += count
        return message, labels


class Sender:
    """The other: base receiver by the bits of its offset, then owner of all leaves but one of each tree."""

    def __init__(self, session, depth, offset, offer, generator):
        self.session, self.depth, self.offset, self.next_cipher = session, depth, offset, 0
        point = ristretto.decode(offer)
        points, self.keys = [], []
        for number in range(BASE_TRANSFERS):
            tree, level = divmod(number, depth)
            choice = offset >> depth * tree + depth - 1 - level & 1
            secret = scalar(generator)
            own = ristretto.multiply(secret, ristretto.BASE)
            data = ristretto.encode(ristretto.add(own, point) if choice else own)
            shared = ristretto.multiply(secret, point)
            self.keys.append(base_key(session, number, (offer, data), shared))
            points.append(data)
        self.message = b"".join(points)

    def path(self, tree):
        return self.offset >> self.depth * tree & (1 << self.depth) - 1

    def finish(self, sums):
        assert len(sums) == 64 * BASE_TRANSFERS
        self.leaves, depth = [], self.depth
        for tree in range(BASE_TRANSFERS // depth):
            path = self.path(tree)
            known, on_path = {}, 0
            for level in range(depth):
                number = depth * tree + level
                turn = path >> depth - 1 - level & 1
                pair = sums[64 * number:64 * number + 64]
                sibling = xor(pair[32 * turn:32 * turn + 32], self.keys[number])
                below = {}
                for place, node in known.items():
                    for side, child in enumerate(children(self.session, tree, level, node)):
                        below[2 * place + side] = child
                        if side != turn:
                            sibling = xor(sibling, child)
                below[2 * on_path + 1 - turn] = sibling
                known, on_path = below, 2 * on_path + turn
            assert on_path == path and len(known) == (1 << depth) - 1
            self.leaves.append({place: leaf(self.session, tree, node) for place, node in known.items()})

    def columns(self, first_cipher, size, corrections):
        """The 128 columns of one block."""
        columns = []
        for tree, leaves in enumerate(self.leaves):
            path = self.path(tree)
            streams = {place: stream(one, first_cipher, -(-size // 128)) for place, one in leaves.items()}
            correction = int.from_bytes(corrections[tree * size // 8:(tree + 1) * size // 8], "little")
            for bit in range(self.depth):
                column = correction if path >> bit & 1 else 0
                for place, one in streams.items():
                    column ^= one if (place ^ path) >> bit & 1 else 0
                columns.append(column & (1 << size) - 1)
        return columns

    def extend(self, message, transfers):
        """The label of choice 0 of each transfer."""
        labels, read, trees = [], 0, BASE_TRANSFERS // self.depth
        for count in batches(transfers):
            first, whole = self.next_cipher, [0] * BASE_TRANSFERS
            corrections = message[read:read + trees * (count + MASKING) // 8]
            read += len(corrections)
            for start in range(0, count, BLOCK):
                size = min(BLOCK, count - start)
                columns = self.columns(first + start // 128, size, corrections[trees * start // 8:trees * (start + size) // 8])
                labels += labels_from(columns, size)
                whole = [total | column << start for total, column in zip(whole, columns)]
            after = first + -(-count // 128)
            masking = self.columns(after, MASKING, corrections[trees * count // 8:])
            check = Check(self.session, first, count, corrections)
            own = int.from_bytes(message[read:read + 16], "little")
            hashes = [check.hash(column, last) ^ (own if self.offset >> place & 1 else 0)
                      for place, (column, last) in enumerate(zip(whole, masking))]
            assert check.digest(hashes) == message[read + 16:read + CHECK_BYTES], "the trees have different choices"
            read += CHECK_BYTES
            self.next_cipher = after + 1
        assert read == len(message)
        return labels
