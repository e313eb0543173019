"""Gates: a sign as a shared bit through a chain of carries, and a value times it, rounded by shares.

Letters are those of the reference chapter, "Gates". All lists have one entry for each sign.
"""

from .bits import pack, unpack
from .garble import LANES, ONES, Hash


class Counted:
    """A hash and its counter, which both parties count on in the same order."""

    def __init__(self, key):
        self.hash_of, self.next = Hash(key), 0

    def take(self, count):
        self.next += count
        return self.next - count

    def labels(self, labels, offset=0):
        """The hashes of labels plus offset, 64 to a counter, from the next counter on; the counter stays."""
        return [self.hash_of(self.next + place // LANES, label ^ offset) for place, label in enumerate(labels)]

    def pads(self, labels):
        """The same, and the counter moves on."""
        hashes = self.labels(labels)
        self.take(-(-len(labels) // LANES))
        return hashes

    def both_pads(self, labels, offset):
        """For choices 0 and 1."""
        ones = self.labels(labels, offset)
        return self.pads(labels), ones


def low(hashes, bits):
    return [value & (1 << bits) - 1 for value in hashes]


def high(hashes, bits):
    return [value >> 64 & (1 << bits) - 1 for value in hashes]


class GateShape:
    """ReLUs of `width` bits, of which `shift` are dropped, into a ring of `output` bits."""

    def __init__(self, width, shift, output):
        self.width, self.shift, self.output = width, shift, output
        self.bits = width - shift
        self.weight, self.wrap_bits = 1 << self.bits, output - self.bits
        # c_0 to c_(n-2), rho, the top bit of c.
        self.groups = self.bits + 1
        self.offer_widths = [self.bits - level for level in range(1, self.bits - 1)] + [self.wrap_bits]
        self.advance_widths = [output, self.wrap_bits]
        self.opening_widths = [self.bits - level for level in range(self.bits - 1)] + [1, output]
        self.reply_widths = [1, output]

    @staticmethod
    def _bytes(widths, signs):
        return sum(-(-width * signs // 8) for width in widths)

    def offer_bytes(self, signs):
        return self._bytes(self.offer_widths, signs)

    def advance_bytes(self, signs):
        return self._bytes(self.advance_widths, signs)

    def opening_bytes(self, signs):
        return self._bytes(self.opening_widths, signs)

    def reply_bytes(self, signs):
        return self._bytes(self.reply_widths, signs)

    def reduced(self, share):
        return share & (1 << self.width) - 1

    def choices(self, shares, coins):
        compared = [self.reduced(share) >> self.shift for share in shares]
        groups = [[value >> level & 1 for value in compared] for level in range(self.bits - 1)]
        groups += [coins, [value >> self.bits - 1 for value in compared]]
        return b"".join(pack(group, 1) for group in groups)


def write(sections, widths):
    return b"".join(pack(section, width) for section, width in zip(sections, widths, strict=True))


def read(data, widths, signs):
    sections = []
    for width in widths:
        size = -(-width * signs // 8)
        sections.append(unpack(data[:size], signs, width))
        data = data[size:]
    assert not data
    return sections


class ServerChain:
    """One sign's chain at the server. `pads[i][c][x]` is P_i[c][x]."""

    def __init__(self, bits, coins, p, first_difference, pads):
        self.bits, self.pads = bits, pads
        # x*_i at place i, p at the last.
        self.stars = [coins >> level & 1 for level in range(bits - 1)] + [p]
        self.differences = [None, first_difference]
        self.offer = []
        for level in range(1, bits - 1):
            zero, one = pads[level]
            sums, star = [zero[x] ^ one[x] for x in (0, 1)], self.stars[level]
            self.offer.append(sums[1 - star] >> 1 << 2 | (sums[1] & 1 ^ star) << 1 | sums[0] & 1 ^ 1 - star)
            self.differences.append((sums[0] ^ sums[1]) | 1)

    def open(self, share):
        s = [share >> level & 1 for level in range(self.bits)]
        permute = [star ^ bit ^ 1 for star, bit in zip(self.stars, s)]
        # Level 0: P_0[0] becomes the label of carry 0 once its color fits.
        zero, one = self.pads[0][0][0], self.pads[0][1][0]
        z = zero & 1 ^ permute[1]
        label, words = zero ^ z, [(zero ^ one ^ s[0] * self.differences[1]) << 1 | z]
        for level in range(1, self.bits - 1):
            star, before, after = self.stars[level], self.differences[level], self.differences[level + 1]
            of_color = [label ^ (x ^ permute[level]) * before for x in (0, 1)]
            t = [self.pads[level][0][x] ^ of_color[x] >> 1 for x in (0, 1)]
            # What the carry is at each color where c_i is zero: at the star it follows c_i.
            carry = [0 if x == star else s[level] for x in (0, 1)]
            zeta = t[0] & 1 ^ carry[0] ^ permute[level + 1]
            label = t[0] ^ zeta ^ carry[0] * after
            words.append((t[1] ^ label ^ carry[1] * after) << 1 | zeta)
        return words


def client_chain(bits, c, pads, offer, opening):
    """delta of one sign. `pads[i][x]` is P_i[c_i][x]."""
    label = pads[0][0] ^ (c & 1) * (opening[0] >> 1) ^ opening[0] & 1
    for level in range(1, bits - 1):
        x, word = label & 1, opening[level]
        chosen = (c >> level & 1) * offer[level - 1]
        follow = chosen >> 2 << 1 | chosen >> x & 1
        label = pads[level][x] ^ follow ^ label >> 1 ^ (word >> 1 if x else word & 1)
    return label & 1 ^ c >> bits - 1


class ServerGates:
    """Gates of one chunk, from the labels of choice 0 that the client chose in, group by group."""

    def __init__(self, shape, counted, offset, groups, masks, reverse_labels, coins):
        self.shape, self.masks, self.reverse_labels = shape, masks, reverse_labels
        signs, bits = range(len(masks)), shape.bits
        stars = [coins.u64() for _ in signs]
        first = [coins.u64() & (1 << bits - 1) - 1 | 1 for _ in signs]
        levels = []
        for level in range(bits - 1):
            both = counted.both_pads(groups[level], offset)
            levels.append([(low(hashes, bits - level - 1), high(hashes, bits - level - 1)) for hashes in both])
        pads = [[[[x[sign] for x in choice] for choice in level] for level in levels] for sign in signs]
        self.chains = [ServerChain(bits, stars[sign], masks[sign], first[sign], pads[sign]) for sign in signs]
        h = counted.both_pads(groups[-2], offset)
        self.h = [low(hashes, shape.output) for hashes in h]
        wraps = counted.both_pads(groups[-1], offset)
        self.wrap, other = (low(hashes, shape.wrap_bits) for hashes in wraps)
        self.q = [coins.u64() & 1 for _ in signs]
        tau = [zero - one + q & (1 << shape.wrap_bits) - 1 for zero, one, q in zip(self.wrap, other, self.q)]
        chain = [[own.offer[level] for own in self.chains] for level in range(bits - 2)]
        self.offer = write(chain + [tau], shape.offer_widths)

    def take_advance(self, reverse, advance):
        hashes = reverse.pads(self.reverse_labels)
        t, wrapped = read(advance, self.shape.advance_widths, len(self.masks))
        keys, wrap_keys = low(hashes, self.shape.output), high(hashes, self.shape.wrap_bits)
        self.v = [key + p * own for key, p, own in zip(keys, self.masks, t)]
        self.v_wrap = [key + p * own & (1 << self.shape.wrap_bits) - 1
                       for key, p, own in zip(wrap_keys, self.masks, wrapped)]

    def open(self, shares):
        shape, opened = self.shape, []
        self.still, self.lever = [], []
        turned, masked = [], []
        for sign, share in enumerate(shares):
            p, a = self.masks[sign], shape.reduced(share + (1 << shape.shift) - 1)
            top = a >> shape.width - 1
            d = top ^ self.q[sign]
            A = (a >> shape.shift) - shape.weight * (top + (1 - 2 * d) * self.wrap[sign])
            V = self.v[sign] + d * shape.weight * self.v_wrap[sign]
            lever = (1 - 2 * p) * A - 2 * V
            turned.append(d)
            masked.append(lever - self.h[1][sign] + self.h[0][sign] & (1 << shape.output) - 1)
            self.still.append(p * A + V)
            self.lever.append(lever)
            opened.append(self.chains[sign].open(a >> shape.shift))
        chain = [[words[level] for words in opened] for level in range(shape.bits - 1)]
        return write(chain + [turned, masked], shape.opening_widths)

    def finish(self, reply):
        turns, replies = read(reply, self.shape.reply_widths, len(self.masks))
        return [still + eps * lever - (1 - 2 * eps) * pad + said & (1 << self.shape.output) - 1
                for still, eps, lever, pad, said in zip(self.still, turns, self.lever, self.h[0], replies)]


class ClientGates:
    """The same gates at the client, from the labels that it chose."""

    def __init__(self, shape, counted, own, groups, offer, reverse, reverse_offset, reverse_labels):
        self.shape, (shares, self.blinds, self.rho) = shape, own
        signs = range(len(shares))
        self.offered = read(offer, shape.offer_widths, len(shares))
        self.compared = [shape.reduced(share) >> shape.shift for share in shares]
        levels = []
        for level in range(shape.bits - 1):
            hashes, size = counted.pads(groups[level]), shape.bits - level - 1
            levels.append((low(hashes, size), high(hashes, size)))
        self.pads = [[[x[sign] for x in level] for level in levels] for sign in signs]
        self.h = low(counted.pads(groups[-2]), shape.output)
        wraps = counted.pads(groups[-1])
        K, others = reverse.both_pads(reverse_labels, reverse_offset)
        self.K, self.K_wrap = low(K, shape.output), high(K, shape.wrap_bits)
        wrap_mask = (1 << shape.wrap_bits) - 1
        self.C, self.G = [], []
        for sign in signs:
            top = self.compared[sign] >> shape.bits - 1
            u = (wraps[sign] & ONES) + top * self.offered[-1][sign] & wrap_mask
            self.C.append(self.compared[sign] - shape.weight * (top - u))
            self.G.append(top - 2 * u & wrap_mask)
        t = [self.K[sign] - others[sign] + self.C[sign] & (1 << shape.output) - 1 for sign in signs]
        wrapped = [self.K_wrap[sign] - (others[sign] >> 64) + self.G[sign] & wrap_mask for sign in signs]
        self.advance = write([t, wrapped], shape.advance_widths)

    def reply(self, opening):
        shape, signs = self.shape, range(len(self.rho))
        *chain, turned, masked = read(opening, shape.opening_widths, len(self.rho))
        turns, replies = [], []
        for sign in signs:
            delta = client_chain(shape.bits, self.compared[sign], self.pads[sign],
                                 [words[sign] for words in self.offered], [words[sign] for words in chain])
            rho, weight = self.rho[sign], turned[sign] * shape.weight
            eps = delta ^ rho
            value = (1 - 2 * eps) * (rho * masked[sign] + self.h[sign])
            value += delta * (self.C[sign] + weight * self.G[sign])
            value -= (1 - 2 * delta) * (self.K[sign] + weight * self.K_wrap[sign]) + self.blinds[sign]
            turns.append(eps)
            replies.append(value & (1 << shape.output) - 1)
        return write([turns, replies], shape.reply_widths)
