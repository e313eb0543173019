"""Garbled circuits: the gate hash, half-gates, projection rows; the circuits themselves; truncation without a circuit."""

from . import aes128
from .bits import pack, unpack

LANES, GROUP = 64, 16
ONES = (1 << 64) - 1


def sigma(label):
    left, right = label >> 64, label & ONES
    return (left ^ right) << 64 | left


class Hash:
    """H(i, x) = AES_{S xor i}(sigma(x)) xor sigma(x), with the round keys of the counters used so far."""

    def __init__(self, key):
        self.key, self.keys = key, {}

    def __call__(self, counter, label):
        if counter not in self.keys:
            self.keys[counter] = aes128.expand(self.key ^ counter)
        mixed = sigma(label)
        return aes128.encrypt(self.keys[counter], mixed) ^ mixed


class Builder:
    """A circuit as a list of gates: wires are numbered, the server's inputs first, then the client's."""

    def __init__(self, server_widths, client_widths):
        self.server_widths, self.client_widths = server_widths, client_widths
        self.wires = sum(server_widths) + sum(client_widths)
        self.gates = []

    def server_value(self, place):
        first = sum(self.server_widths[:place])
        return list(range(first, first + self.server_widths[place]))

    def client_value(self, place):
        first = sum(self.server_widths) + sum(self.client_widths[:place])
        return list(range(first, first + self.client_widths[place]))

    def gate(self, operation, *inputs):
        self.gates.append((operation, inputs, self.wires))
        self.wires += 1
        return self.wires - 1

    def xor(self, *inputs):
        return self.gate("xor", *inputs)

    def invert(self, wire):
        return self.gate("not", wire)

    def both(self, left, right):
        return self.gate("and", left, right)

    def majority(self, first, second, third):
        return self.gate("majority", first, second, third)

    def either(self, left, right):
        both = self.both(left, right)
        return self.xor(left, right, both)

    def add(self, left, right):
        total = [self.xor(left[0], right[0])]
        if len(left) == 1:
            return total
        carry = self.both(left[0], right[0])
        for bit in range(1, len(left)):
            total.append(self.xor(left[bit], right[bit], carry))
            if bit + 1 < len(left):
                carry = self.majority(left[bit], right[bit], carry)
        return total

    def shared_value(self, place):
        return self.add(self.server_value(place), self.client_value(place))

    def choose(self, condition, if_one, if_zero):
        difference = self.xor(if_one, if_zero)
        return self.xor(self.both(condition, difference), if_zero)

    def choose_word(self, condition, if_one, if_zero):
        return [self.choose(condition, one, zero) for one, zero in zip(if_one, if_zero)]

    def is_less(self, left, right):
        borrow = None
        for bit in range(len(left)):
            smaller, greater = (right[bit], left[bit]) if bit == len(left) - 1 else (left[bit], right[bit])
            inverted = self.invert(smaller)
            borrow = self.both(inverted, greater) if borrow is None else self.majority(inverted, greater, borrow)
        return borrow

    def exceeds(self, word, constant):
        if constant >> len(word):
            return None
        greater = None
        for bit, wire in enumerate(word):
            if constant >> bit & 1:
                greater = None if greater is None else self.both(wire, greater)
            else:
                greater = wire if greater is None else self.either(wire, greater)
        return greater

    def finish(self, **output):
        return Circuit(self, **output)


class Circuit:
    """`selected` is (select wire, terms), `plain` terms; a term is (wire, weight). Or `decoded` is a list of wires."""

    def __init__(self, builder, output_bits, selected=None, plain=(), decoded=None):
        self.server_widths, self.client_widths = builder.server_widths, builder.client_widths
        self.gates, self.output_bits = builder.gates, output_bits
        self.selected, self.plain, self.decoded = selected, list(plain), decoded
        self.server_wires, self.client_wires = sum(self.server_widths), sum(self.client_widths)
        self.ands = sum(operation in ("and", "majority") for operation, _, _ in self.gates)
        self.entry = 0 if decoded else -(-output_bits // 8)
        rows = len(self.plain) + (len(selected[1]) + 1 if selected else 0)
        self.hashes = 2 * self.ands + rows
        pieces = len(self.plain) + (2 * len(selected[1]) + 1 if selected else 0)
        self.lane_bytes = 32 * self.ands + pieces * self.entry

    def label_bytes(self, lanes):
        return 16 * lanes * self.server_wires + (-(-lanes * self.output_bits // 8) if self.decoded else 0)

    def reply_bytes(self, lanes):
        return 0 if self.decoded else -(-lanes * self.output_bits // 8)


def terms(wires):
    return [(wire, 1 << bit) for bit, wire in enumerate(wires)]


def relu(width, lowest, output_bits):
    builder = Builder([width], [width])
    total = builder.shared_value(0)
    is_positive = builder.invert(total[-1])
    magnitude = total[lowest:][:min(len(total) - 1 - lowest, output_bits)]
    return builder.finish(output_bits=output_bits, selected=(is_positive, terms(magnitude)))


def clip(width, lowest, output_bits, threshold):
    builder = Builder([width], [width])
    total = builder.shared_value(0)
    is_positive = builder.invert(total[-1])
    magnitude = total[lowest:-1]
    plain, is_within = [], is_positive
    exceeds = builder.exceeds(magnitude, threshold - 1)
    if exceeds is not None:
        is_clipped = builder.both(is_positive, exceeds)
        is_within = builder.xor(is_positive, is_clipped)
        plain = [(is_clipped, threshold)]
    kept = magnitude[:(threshold - 1).bit_length()]
    return builder.finish(output_bits=output_bits, selected=(is_within, terms(kept)), plain=plain)


def maximum(values, width, output_bits):
    builder = Builder([width] * values, [width] * values)
    greatest = builder.shared_value(0)
    for place in range(1, values):
        value = builder.shared_value(place)
        is_less = builder.is_less(greatest, value)
        greatest = builder.choose_word(is_less, value, greatest)
    plain = [(wire, (-1 if bit == width - 1 else 1) << bit) for bit, wire in enumerate(greatest[:output_bits])]
    return builder.finish(output_bits=output_bits, plain=plain)


def argmax(classes, width):
    builder = Builder([width] * classes, [width] * classes)
    players = [(builder.shared_value(place), []) for place in range(classes)]
    while len(players) > 1:
        winners = []
        for first in range(0, len(players), 2):
            if first + 1 == len(players):
                value, place = players[first]
                winners.append((value, place + [None]))
                continue
            (value_1, place_1), (value_2, place_2) = players[first], players[first + 1]
            second_wins = builder.is_less(value_1, value_2)
            value = builder.choose_word(second_wins, value_2, value_1)
            place = []
            for one, other in zip(place_1, place_2):
                if one is not None and other is not None:
                    place.append(builder.choose(second_wins, other, one))
                elif other is not None:
                    place.append(builder.both(second_wins, other))
                elif one is not None:
                    place.append(builder.both(builder.invert(second_wins), one))
                else:
                    place.append(None)
            winners.append((value, place + [second_wins]))
        players = winners
    place = players[0][1]
    return builder.finish(output_bits=len(place), decoded=place)


def wire_bits(circuit_widths, values):
    """The bit of each wire in each lane; `values` has one list per lane, one number per input."""
    return [[value[place] >> bit & 1 for value in values] for place, width in enumerate(circuit_widths)
            for bit in range(width)]


def choices(circuit, values):
    lanes = len(values)
    words = [sum(bit << lane for lane, bit in enumerate(bits)) for bits in wire_bits(circuit.client_widths, values)]
    return pack(words, lanes)


class ServerChunk:
    """Up to 64 lanes of one circuit, garbled."""

    def __init__(self, circuit, lanes, hash_of, counter, offset, client_labels, seeds):
        self.circuit, self.lanes, self.offset = circuit, lanes, offset
        key, nonce = seeds.u128(), seeds.u128()
        keys, stride = aes128.expand(key), -(-lanes // GROUP) * GROUP
        self.zero = [[aes128.encrypt(keys, nonce ^ wire * stride + lane) for lane in range(lanes)]
                     for wire in range(circuit.server_wires)]
        labels = {wire: own for wire, own in enumerate(self.zero)}
        for wire in range(circuit.client_wires):
            labels[circuit.server_wires + wire] = client_labels[wire * lanes:(wire + 1) * lanes]
        tables = []
        for operation, inputs, out in circuit.gates:
            read = [labels[wire] for wire in inputs]
            if operation == "xor":
                labels[out] = [read[0][lane] ^ read[1][lane] ^ (read[2][lane] if len(read) == 3 else 0)
                               for lane in range(lanes)]
            elif operation == "not":
                labels[out] = [label ^ offset for label in read[0]]
            else:
                shared = read[2] if operation == "majority" else [0] * lanes
                gates = [self.half_gates(hash_of, counter, read[0][lane] ^ shared[lane], read[1][lane] ^ shared[lane])
                         for lane in range(lanes)]
                counter += 2
                labels[out] = [gate[0] ^ shared[lane] for lane, gate in enumerate(gates)]
                tables += [gate[1] for gate in gates] + [gate[2] for gate in gates]
        message = b"".join(table.to_bytes(16, "little") for table in tables)
        if circuit.decoded:
            self.output = [sum((labels[wire][lane] & 1) << bit for bit, wire in enumerate(circuit.decoded))
                           for lane in range(lanes)]
        else:
            rows, self.output = self.rows(hash_of, counter, labels)
            message += rows
        self.tables = message

    def half_gates(self, hash_of, counter, left, right):
        offset = self.offset
        left_zero, left_one = hash_of(counter, left), hash_of(counter, left ^ offset)
        right_zero, right_one = hash_of(counter + 1, right), hash_of(counter + 1, right ^ offset)
        generator = left_zero ^ left_one ^ (offset if right & 1 else 0)
        evaluator = right_zero ^ right_one ^ left
        out = left_zero ^ (generator if left & 1 else 0)
        out ^= right_zero ^ (evaluator ^ left if right & 1 else 0)
        return out, generator, evaluator

    def colored(self, hash_of, counter, label):
        """The hashes of the labels of color 0 and 1, each as two pieces, and the color of the zero label."""
        pair = hash_of(counter, label), hash_of(counter, label ^ self.offset)
        of_color = pair if label & 1 == 0 else (pair[1], pair[0])
        return [(value & ONES, value >> 64) for value in of_color], label & 1

    def rows(self, hash_of, counter, labels):
        circuit, lanes, entry = self.circuit, self.lanes, self.circuit.entry
        message, masks = b"", [0] * lanes
        cut = lambda value: (value & (1 << 8 * entry) - 1).to_bytes(entry, "little")
        if circuit.selected:
            select, bits = circuit.selected
            first, second = [0] * lanes, [0] * lanes
            for wire, weight in bits:
                for lane in range(lanes):
                    permute_v = labels[select][lane] & 1
                    factors = permute_v, 1 - 2 * permute_v
                    (zero, one), permute = self.colored(hash_of, counter, labels[wire][lane])
                    for j in (0, 1):
                        message += cut(zero[j] - one[j] + factors[j] * weight * (1 - 2 * permute))
                    first[lane] += zero[0] - factors[0] * weight * permute
                    second[lane] += zero[1] - factors[1] * weight * permute
                counter += 1
            for lane in range(lanes):
                (zero, one), _ = self.colored(hash_of, counter, labels[select][lane])
                message += cut(zero[0] - one[0] - second[lane])
                masks[lane] += first[lane] + zero[0]
            counter += 1
        for wire, weight in circuit.plain:
            for lane in range(lanes):
                (zero, one), permute = self.colored(hash_of, counter, labels[wire][lane])
                message += cut(zero[0] - one[0] + weight * (1 - 2 * permute))
                masks[lane] += zero[0] - weight * permute
            counter += 1
        return message, masks

    def open(self, values):
        labels = [zero ^ (self.offset if bit else 0)
                  for wire, bits in enumerate(wire_bits(self.circuit.server_widths, values))
                  for zero, bit in zip(self.zero[wire], bits)]
        message = b"".join(label.to_bytes(16, "little") for label in labels)
        return message + (pack(self.output, self.circuit.output_bits) if self.circuit.decoded else b"")

    def finish(self, reply):
        bits = self.circuit.output_bits
        values = unpack(reply, self.lanes, bits)
        return [(value - mask) & (1 << bits) - 1 for value, mask in zip(values, self.output)]


class ClientChunk:
    """The same lanes, evaluated."""

    def __init__(self, circuit, lanes, hash_of, counter, client_labels, tables):
        self.circuit, self.lanes, self.hash_of, self.counter = circuit, lanes, hash_of, counter
        self.client_labels, self.tables = client_labels, tables

    def run(self, message):
        circuit, lanes, counter, hash_of = self.circuit, self.lanes, self.counter, self.hash_of
        label = lambda data, place: int.from_bytes(data[16 * place:16 * place + 16], "little")
        labels = {wire: [label(message, wire * lanes + lane) for lane in range(lanes)]
                  for wire in range(circuit.server_wires)}
        for wire in range(circuit.client_wires):
            labels[circuit.server_wires + wire] = self.client_labels[wire * lanes:(wire + 1) * lanes]
        gate = 0
        for operation, inputs, out in circuit.gates:
            read = [labels[wire] for wire in inputs]
            if operation == "xor":
                labels[out] = [read[0][lane] ^ read[1][lane] ^ (read[2][lane] if len(read) == 3 else 0)
                               for lane in range(lanes)]
            elif operation == "not":
                labels[out] = read[0]
            else:
                labels[out] = []
                for lane in range(lanes):
                    shared = read[2][lane] if operation == "majority" else 0
                    left, right = read[0][lane] ^ shared, read[1][lane] ^ shared
                    generator = label(self.tables, 2 * gate * lanes + lane)
                    evaluator = label(self.tables, (2 * gate + 1) * lanes + lane)
                    value = hash_of(counter, left) ^ (generator if left & 1 else 0)
                    value ^= hash_of(counter + 1, right) ^ (evaluator ^ left if right & 1 else 0)
                    labels[out].append(value ^ shared)
                counter += 2
                gate += 1
        if circuit.decoded:
            return [sum((labels[wire][lane] & 1) << bit for bit, wire in enumerate(circuit.decoded))
                    for lane in range(lanes)]
        return self.rows(counter, labels, 32 * gate * lanes)

    def rows(self, counter, labels, position):
        circuit, lanes, entry = self.circuit, self.lanes, self.circuit.entry
        totals = [0] * lanes

        def take():
            nonlocal position
            position += entry
            return int.from_bytes(self.tables[position - entry:position], "little")

        if circuit.selected:
            select, bits = circuit.selected
            first, second = [0] * lanes, [0] * lanes
            for wire, _ in bits:
                for lane in range(lanes):
                    own = labels[wire][lane]
                    value, row = self.hash_of(counter, own), (take(), take())
                    first[lane] += (value & ONES) + (own & 1) * row[0]
                    second[lane] += (value >> 64) + (own & 1) * row[1]
                counter += 1
            for lane in range(lanes):
                own = labels[select][lane]
                value, row = self.hash_of(counter, own), take()
                totals[lane] += first[lane] + (value & ONES) + (own & 1) * (row + second[lane])
            counter += 1
        for wire, _ in circuit.plain:
            for lane in range(lanes):
                own = labels[wire][lane]
                totals[lane] += (self.hash_of(counter, own) & ONES) + (own & 1) * take()
            counter += 1
        return totals

    def reply(self, message, blinds):
        bits = self.circuit.output_bits
        return pack([(total - blind) & (1 << bits) - 1 for total, blind in zip(self.run(message), blinds)], bits)

    def decode(self, message):
        colors = self.run(message)
        permute = unpack(message[16 * self.lanes * self.circuit.server_wires:], self.lanes, self.circuit.output_bits)
        return [color ^ bit for color, bit in zip(colors, permute)]


class Truncation:
    """The shape of a known-MSB truncation: from `width` bits to `output_bits`, dropping `shift`."""

    def __init__(self, width, shift, output_bits):
        self.width, self.shift, self.output_bits = width, shift, output_bits
        self.wrap_bits = output_bits + shift - width
        self.weight = 1 << (width - shift)

    def top(self, share):
        return share >> (self.width - 1) & 1

    def choices(self, shares):
        return pack([self.top(share) for share in shares], 1)


class ServerTruncation:
    def __init__(self, shape, hash_of, counter, offset, labels, coins):
        self.shape = shape
        low = lambda place, label: hash_of(counter + place // LANES, label) & ONES
        zero = [low(place, label) for place, label in enumerate(labels)]
        one = [low(place, label ^ offset) for place, label in enumerate(labels)]
        self.coins = [coins.u64() & 1 for _ in labels]
        mask = (1 << shape.wrap_bits) - 1
        self.own = [-value for value in zero]
        offers = [z - o + coin & mask for z, o, coin in zip(zero, one, self.coins)]
        self.offer = pack(offers, shape.wrap_bits)

    def open(self, shares):
        shape = self.shape
        lift, openings, self.known = 1 << (shape.width - 2), [], []
        for share, coin, own in zip(shares, self.coins, self.own):
            lifted = share + lift + (1 << shape.shift) - 1 & (1 << shape.width) - 1
            opening = shape.top(lifted) ^ coin
            wrap = shape.top(lifted) - (1 - 2 * opening) * own
            self.known.append((lifted >> shape.shift) - (lift >> shape.shift) - shape.weight * wrap)
            openings.append(opening)
        return pack(openings, 1)

    def finish(self, reply, factors):
        values = unpack(reply, len(self.known), self.shape.output_bits)
        return [known * factor + value & (1 << self.shape.output_bits) - 1
                for known, factor, value in zip(self.known, factors, values)]


class ClientTruncation:
    def __init__(self, shape, hash_of, counter, labels, shares, blinds, factors, offer):
        self.shape, self.factors, self.tops = shape, factors, [shape.top(share) for share in shares]
        offers = unpack(offer, len(shares), shape.wrap_bits)
        self.own = [(hash_of(counter + place // LANES, label) & ONES) + top * tau
                    for place, (label, top, tau) in enumerate(zip(labels, self.tops, offers))]
        self.known = [(share >> shape.shift) * factor - blind for share, factor, blind in zip(shares, factors, blinds)]

    def reply(self, message):
        values, openings = [], unpack(message, len(self.tops), 1)
        for opened, top, own, known, factor in zip(openings, self.tops, self.own, self.known, self.factors):
            wrap = opened * top + (1 - 2 * opened) * own - top
            values.append(known + factor * self.shape.weight * wrap & (1 << self.shape.output_bits) - 1)
        return pack(values, self.shape.output_bits)
