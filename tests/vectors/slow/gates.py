"""Gates: a sign as a shared bit through a chain of carries, and values times it, rounded by shares.

Letters are those of the reference chapter, "Gates". All lists have one entry for each sign.
"""

from collections import namedtuple

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


# One of the values that a sign decides over: l, o, W and k of the chapter.
Value = namedtuple("Value", "ring lift weight wrap_bits")


class GateShape:
    """Values of `width` bits, of which `shift` are dropped, into a ring of `output` bits. Slopes have `slope_bits`, if any."""

    def __init__(self, width, shift, output, values=1, slope_bits=None):
        self.width, self.shift, self.output = width, shift, output
        self.bits = width - shift
        lifted = [number > 0 or slope_bits is not None for number in range(values)]
        self.values = [Value(width + up, up << width - 1, 1 << self.bits + up, output - self.bits - up) for up in lifted]
        self.sign_shift = slope_bits or 0
        # c_0 to c_(n-2), rho, the top bit of c of each value.
        self.groups = self.bits + values
        wraps = [value.wrap_bits for value in self.values]
        self.offer_widths = [self.bits - level for level in range(1, self.bits - 1)] + wraps
        self.advance_widths = [width for wrap in wraps for width in (output, wrap)]
        self.opening_widths = [self.bits - level for level in range(self.bits - 1)] + [1, output] * values
        self.reply_widths = [1] + [output] * values

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

    def compared(self, share):
        return (share & (1 << self.width) - 1) >> self.shift

    def by_value(self, flat):
        """A chunk's list of all first values, then all second ones, cut apart."""
        signs = len(flat) // len(self.values)
        return [flat[start:start + signs] for start in range(0, len(flat), signs)] if flat else [None] * len(self.values)

    def choices(self, shares, coins):
        shares = self.by_value(shares)
        compared = [self.compared(share) for share in shares[0]]
        groups = [[value >> level & 1 for value in compared] for level in range(self.bits - 1)] + [coins]
        groups += [[share >> value.ring - 1 & 1 for share in own] for value, own in zip(self.values, shares)]
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


class ServerValue:
    """One value of every sign at the server."""

    def __init__(self, shape, value, counted, offset, turned, tops, coins):
        self.shape, self.value = shape, value
        self.h = [low(hashes, shape.output) for hashes in counted.both_pads(turned, offset)]
        self.wrap, other = (low(hashes, value.wrap_bits) for hashes in counted.both_pads(tops, offset))
        self.q = [coins.u64() & 1 for _ in tops]
        mask = (1 << value.wrap_bits) - 1
        self.tau = [zero - one + q & mask for zero, one, q in zip(self.wrap, other, self.q)]

    def take_advance(self, hashes, masks, t, wrapped):
        wrap_mask = (1 << self.value.wrap_bits) - 1
        keys, wrap_keys = low(hashes, self.shape.output), high(hashes, self.value.wrap_bits)
        self.v = [key + p * own for key, p, own in zip(keys, masks, t)]
        self.v_wrap = [key + p * own & wrap_mask for key, p, own in zip(wrap_keys, masks, wrapped)]

    def open(self, shares, masks, slopes):
        shift, (ring, lift, weight, _) = self.shape.shift, self.value
        self.still, self.lever, turned, masked = [], [], [], []
        for sign, (share, p) in enumerate(zip(shares, masks)):
            a = share + lift + (1 << shift) - 1 & (1 << ring) - 1
            top = a >> ring - 1
            d = top ^ self.q[sign]
            A = (a >> shift) - (lift >> shift) - weight * (top + (1 - 2 * d) * self.wrap[sign])
            V = self.v[sign] + d * weight * self.v_wrap[sign]
            lever = (1 - 2 * p) * A - 2 * V
            turned.append(d)
            masked.append(lever - self.h[1][sign] + self.h[0][sign] & (1 << self.shape.output) - 1)
            self.still.append((p * A + V << self.shape.sign_shift) + (slopes[sign] * A if slopes else 0))
            self.lever.append(lever)
        return turned, masked

    def finish(self, turns, replies):
        up, mask = self.shape.sign_shift, (1 << self.shape.output) - 1
        return [still + (eps * lever - (1 - 2 * eps) * pad << up) + said & mask
                for still, eps, lever, pad, said in zip(self.still, turns, self.lever, self.h[0], replies)]


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
        turned, tops = groups[bits - 1], groups[bits:]
        self.values = [ServerValue(shape, value, counted, offset, turned, own, coins)
                       for value, own in zip(shape.values, tops)]
        chain = [[own.offer[level] for own in self.chains] for level in range(bits - 2)]
        self.offer = write(chain + [value.tau for value in self.values], shape.offer_widths)

    def take_advance(self, reverse, advance):
        sections = read(advance, self.shape.advance_widths, len(self.masks))
        for number, value in enumerate(self.values):
            value.take_advance(reverse.pads(self.reverse_labels), self.masks, *sections[2 * number:2 * number + 2])

    def open(self, shares, slopes):
        shape, shares = self.shape, self.shape.by_value(shares)
        rounded = [shape.compared(share + (1 << shape.shift) - 1) for share in shares[0]]
        opened = [chain.open(share) for chain, share in zip(self.chains, rounded)]
        sections = [[words[level] for words in opened] for level in range(shape.bits - 1)]
        for value, own, own_slopes in zip(self.values, shares, shape.by_value(slopes)):
            sections += value.open(own, self.masks, own_slopes)
        return write(sections, shape.opening_widths)

    def finish(self, reply):
        turns, *replies = read(reply, self.shape.reply_widths, len(self.masks))
        return [share for value, said in zip(self.values, replies) for share in value.finish(turns, said)]


class ClientValue:
    """One value of every sign at the client."""

    def __init__(self, shape, value, counted, shares, blinds, turned, tops, tau, reverse):
        self.shape, self.value, self.blinds = shape, value, blinds
        self.h = low(counted.pads(turned), shape.output)
        wraps = counted.pads(tops)
        K, self.others = reverse
        self.K, self.K_wrap = low(K, shape.output), high(K, value.wrap_bits)
        self.C, self.G = [], []
        for sign, share in enumerate(shares):
            share &= (1 << value.ring) - 1
            top, mask = share >> value.ring - 1, (1 << value.wrap_bits) - 1
            u = (wraps[sign] & ONES) + top * tau[sign] & mask
            self.C.append((share >> shape.shift) - value.weight * (top - u))
            self.G.append(top - 2 * u & mask)

    def advance(self):
        mask, wrap_mask = (1 << self.shape.output) - 1, (1 << self.value.wrap_bits) - 1
        t = [K - other + C & mask for K, other, C in zip(self.K, self.others, self.C)]
        wrapped = [K - (other >> 64) + G & wrap_mask for K, other, G in zip(self.K_wrap, self.others, self.G)]
        return [t, wrapped]

    def reply(self, deltas, rhos, turned, masked, slopes):
        replies = []
        for sign, (delta, rho) in enumerate(zip(deltas, rhos)):
            weight = turned[sign] * self.value.weight
            own = self.C[sign] + weight * self.G[sign]
            gated = (1 - 2 * (delta ^ rho)) * (rho * masked[sign] + self.h[sign]) + delta * own
            gated -= (1 - 2 * delta) * (self.K[sign] + weight * self.K_wrap[sign])
            passed = slopes[sign] * own if slopes else 0
            value = (gated << self.shape.sign_shift) + passed - self.blinds[sign]
            replies.append(value & (1 << self.shape.output) - 1)
        return replies


class ClientGates:
    """The same gates at the client, from the labels that it chose."""

    def __init__(self, shape, counted, own, groups, offer, reverse, reverse_offset, reverse_labels):
        self.shape, (shares, blinds, self.rho) = shape, own
        shares, blinds, signs = shape.by_value(shares), shape.by_value(blinds), range(len(self.rho))
        self.offered = read(offer, shape.offer_widths, len(self.rho))
        taus = self.offered[shape.bits - 2:]
        self.compared = [shape.compared(share) for share in shares[0]]
        levels = []
        for level in range(shape.bits - 1):
            hashes, size = counted.pads(groups[level]), shape.bits - level - 1
            levels.append((low(hashes, size), high(hashes, size)))
        self.pads = [[[x[sign] for x in level] for level in levels] for sign in signs]
        turned, tops = groups[shape.bits - 1], groups[shape.bits:]
        self.values, sections = [], []
        for number, value in enumerate(shape.values):
            pads = reverse.both_pads(reverse_labels, reverse_offset)
            self.values.append(ClientValue(shape, value, counted, shares[number], blinds[number], turned, tops[number],
                                           taus[number], pads))
            sections += self.values[-1].advance()
        self.advance = write(sections, shape.advance_widths)

    def reply(self, opening, slopes):
        shape, signs = self.shape, range(len(self.rho))
        sections = read(opening, shape.opening_widths, len(self.rho))
        chain, opened = sections[:shape.bits - 1], sections[shape.bits - 1:]
        deltas = [client_chain(shape.bits, self.compared[sign], self.pads[sign],
                               [words[sign] for words in self.offered], [words[sign] for words in chain])
                  for sign in signs]
        replies = [[delta ^ rho for delta, rho in zip(deltas, self.rho)]]
        for number, (value, own_slopes) in enumerate(zip(self.values, shape.by_value(slopes))):
            replies.append(value.reply(deltas, self.rho, *opened[2 * number:2 * number + 2], own_slopes))
        return write(replies, shape.reply_widths)
