"""The parts of interactive steps: positions that are treated alike, with each party's course of messages."""

from . import garble
from .garble import LANES
from .gates import ClientGates, GateShape, ServerGates
from .outline import windows
from .randomness import generator
from .words import GARBLED, GATES, TRUNCATION

# Signs that are worked on together.
CHUNK = 512


class GarbledPart:
    """Positions of one step that one circuit serves. `inputs` has a list of places for each circuit."""

    kind, advance_bytes, reverse_transfers = GARBLED, 0, 0

    def __init__(self, circuit, value, step, inputs, outputs, input_bits, rounding=0):
        self.circuit, self.value, self.step = circuit, value, step
        self.inputs, self.outputs, self.input_bits, self.rounding = inputs, outputs, input_bits, rounding
        count = len(inputs)
        self.chunks = [(start, min(LANES, count - start)) for start in range(0, count, LANES)]
        self.offer_bytes = sum(lanes * circuit.lane_bytes for _, lanes in self.chunks)
        self.opening_bytes = sum(circuit.label_bytes(lanes) for _, lanes in self.chunks)
        self.reply_bytes = sum(circuit.reply_bytes(lanes) for _, lanes in self.chunks)
        self.transfers = sum(-(-lanes * circuit.client_wires // 8) * 8 for _, lanes in self.chunks)

    def gather(self, share, start, lanes, rounding=0):
        mask = (1 << self.input_bits) - 1
        return [[share[place] + rounding & mask for place in places] for places in self.inputs[start:start + lanes]]

    def choices(self, client):
        share = client.shares[self.value]
        return b"".join(garble.choices(self.circuit, self.gather(share, *chunk)) for chunk in self.chunks)

    def offer(self, server, labels):
        self.garbled, place = [], 0
        for start, lanes in self.chunks:
            wires = lanes * self.circuit.client_wires
            own = labels[place:place + wires]
            place += -(-wires // 8) * 8
            counter = server.counted.take(self.circuit.hashes)
            hash_of = server.counted.hash_of
            chunk = garble.ServerChunk(self.circuit, lanes, hash_of, counter, server.offset, own, server.seeds)
            self.garbled.append(chunk)
        return b"".join(chunk.tables for chunk in self.garbled)

    def accept(self, client, labels, offer):
        self.evaluated, place, read = [], 0, 0
        for _, lanes in self.chunks:
            wires, size = lanes * self.circuit.client_wires, lanes * self.circuit.lane_bytes
            own, tables = labels[place:place + wires], offer[read:read + size]
            place, read = place + -(-wires // 8) * 8, read + size
            counter, hash_of = client.counted.take(self.circuit.hashes), client.counted.hash_of
            self.evaluated.append(garble.ClientChunk(self.circuit, lanes, hash_of, counter, own, tables))

    def open(self, share):
        return b"".join(chunk.open(self.gather(share, start, lanes, self.rounding))
                        for chunk, (start, lanes) in zip(self.garbled, self.chunks))

    def reply(self, opening, blinds):
        message, read = b"", 0
        for chunk, (start, lanes) in zip(self.evaluated, self.chunks):
            size = self.circuit.label_bytes(lanes)
            own = [blinds[place] for place in self.outputs[start:start + lanes]]
            message += chunk.reply(opening[read:read + size], own)
            read += size
        return message

    def finish(self, message, values):
        read = 0
        for chunk, (start, lanes) in zip(self.garbled, self.chunks):
            size = self.circuit.reply_bytes(lanes)
            for place, value in zip(self.outputs[start:start + lanes], chunk.finish(message[read:read + size])):
                values[place] = value
            read += size


class TruncatedPart:
    """Positions of one step without ReLU."""

    kind, advance_bytes, reverse_transfers = TRUNCATION, 0, 0

    def __init__(self, shape, value, step, places, factors=None):
        self.shape, self.value, self.step, self.places = shape, value, step, places
        self.factors = factors or [1] * len(places)
        count = len(places)
        self.offer_bytes = -(-count * shape.wrap_bits // 8)
        self.opening_bytes = -(-count // 8)
        self.reply_bytes = -(-count * shape.output_bits // 8)
        self.transfers = -(-count // 8) * 8
        self.hashes = -(-count // LANES)

    def gather(self, share):
        return [share[place] & (1 << self.shape.width) - 1 for place in self.places]

    def choices(self, client):
        return self.shape.choices(self.gather(client.shares[self.value]))

    def offer(self, server, labels):
        labels = labels[:len(self.places)]
        counter, hash_of = server.counted.take(self.hashes), server.counted.hash_of
        self.server = garble.ServerTruncation(self.shape, hash_of, counter, server.offset, labels, server.coins)
        return self.server.offer

    def accept(self, client, labels, offer):
        mask = (1 << self.shape.output_bits) - 1
        blinds = [client.blinds[self.step][place] & mask for place in self.places]
        shares = self.gather(client.shares[self.value])
        labels = labels[:len(self.places)]
        counter, hash_of = client.counted.take(self.hashes), client.counted.hash_of
        self.client = garble.ClientTruncation(self.shape, hash_of, counter, labels, shares, blinds,
                                              self.factors, offer)

    def open(self, share):
        return self.server.open(self.gather(share))

    def reply(self, opening, _blinds):
        return self.client.reply(opening)

    def finish(self, message, values):
        for place, value in zip(self.places, self.server.finish(message, self.factors)):
            values[place] = value


class GatedPart:
    """Values of one step that pass by signs: a list of places for each sign, the compared one first, and slopes likewise."""

    kind = GATES

    def __init__(self, shape, value, step, groups, slopes=None):
        self.shape, self.value, self.step = shape, value, step
        # Chunk by chunk all first values, then all second ones, and so on.
        cut = lambda lists: [lists[start:start + CHUNK] for start in range(0, len(lists), CHUNK)]
        flat = lambda lists: [[entry for number in zip(*chunk) for entry in number] for chunk in cut(lists)]
        self.chunks = flat(groups)
        self.slopes = flat(slopes) if slopes else [[] for _ in self.chunks]
        self.signs = [len(chunk) for chunk in cut(groups)]
        total = lambda length: sum(length(signs) for signs in self.signs)
        self.offer_bytes, self.advance_bytes = total(shape.offer_bytes), total(shape.advance_bytes)
        self.opening_bytes, self.reply_bytes = total(shape.opening_bytes), total(shape.reply_bytes)
        whole = lambda signs: -(-signs // 8) * 8
        self.transfers = total(lambda signs: shape.groups * whole(signs))
        self.reverse_transfers = total(whole)

    def take_groups(self, labels, place, groups, signs):
        """Groups of labels, each of which begins at a whole byte of choices."""
        stride = -(-signs // 8) * 8
        return [labels[place + group * stride:place + group * stride + signs] for group in range(groups)]

    def own(self, client, chunk):
        """The client's shares, blinds, and rho: the top bits of compared values' blinds, which are in no ring."""
        blinds = [client.blinds[self.step][place] for place in chunk]
        leaders = blinds[:len(chunk) // len(self.shape.values)]
        return [client.shares[self.value][place] for place in chunk], blinds, [blind >> 63 for blind in leaders]

    def choices(self, client):
        return b"".join(self.shape.choices(shares, coins)
                        for shares, _, coins in (self.own(client, chunk) for chunk in self.chunks))

    def offer(self, server, labels):
        self.server, message, place = [], b"", 0
        for signs in self.signs:
            stride = -(-signs // 8) * 8
            groups = self.take_groups(labels, place, self.shape.groups, signs)
            masks, reverse = server.take_reverse(signs)
            coins = generator(server.coins.bytes(32))
            gates = ServerGates(self.shape, server.counted, server.offset, groups, masks, reverse, coins)
            place += self.shape.groups * stride
            message += gates.offer
            self.server.append(gates)
        return message

    def accept(self, client, labels, offer):
        self.client, self.advance, place, read = [], b"", 0, 0
        for signs, chunk in zip(self.signs, self.chunks):
            stride = -(-signs // 8) * 8
            groups = self.take_groups(labels, place, self.shape.groups, signs)
            size = self.shape.offer_bytes(signs)
            gates = ClientGates(self.shape, client.counted, self.own(client, chunk), groups, offer[read:read + size],
                                client.reverse_counted, client.reverse_offset, client.take_reverse(signs))
            place, read = place + self.shape.groups * stride, read + size
            self.advance += gates.advance
            self.client.append(gates)

    def take_advance(self, server, advance):
        for signs, gates in zip(self.signs, self.server):
            size = self.shape.advance_bytes(signs)
            gates.take_advance(server.reverse_counted, advance[:size])
            advance = advance[size:]

    def open(self, share):
        return b"".join(gates.open([share[place] for place in chunk], slopes)
                        for chunk, slopes, gates in zip(self.chunks, self.slopes, self.server))

    def reply(self, opening, _blinds):
        message = b""
        for signs, slopes, gates in zip(self.signs, self.slopes, self.client):
            size = self.shape.opening_bytes(signs)
            message += gates.reply(opening[:size], slopes)
            opening = opening[size:]
        return message

    def finish(self, message, values):
        for signs, chunk, gates in zip(self.signs, self.chunks, self.server):
            size = self.shape.reply_bytes(signs)
            for place, value in zip(chunk, gates.finish(message[:size])):
                values[place] = value
            message = message[size:]


def gate_parts(step, value, number):
    """Computed signs, from small groups to large ones, then the values of signs that are not computed."""
    width, shift, groups, slope_bits, slopes, kept = step.fields
    plane, output = step.shape.height * step.shape.width, max(step.ring_bits, width - shift + 2)
    all_signs = [(group, pixel) for group in range(len(groups)) for pixel in range(plane)]
    places = lambda group, pixel: [channel * plane + pixel for channel in groups[group]]
    parts = []
    for size in sorted({len(group) for group in groups}):
        signs = [(group, pixel) for group, pixel in all_signs
                 if len(groups[group]) == size and kept[group * plane + pixel]]
        if signs:
            shape = GateShape(width, shift, output, size, slope_bits if slopes else None)
            own = [[slopes[channel] for channel in groups[group]] for group, _ in signs] if slopes else None
            parts.append(GatedPart(shape, value, number, [places(*sign) for sign in signs], own))
    dropped = [sign for sign in all_signs if not kept[sign[0] * plane + sign[1]]]
    if dropped:
        shape = garble.Truncation(width + 1, shift, output)
        factor = lambda channel: (slopes[channel] if slopes else 0) + (1 << slope_bits)
        parts.append(TruncatedPart(shape, value, number, [place for sign in dropped for place in places(*sign)],
                                   [factor(channel) for group, _ in dropped for channel in groups[group]]))
    return parts


def parts_of(outline, number, relus):
    """The parts of an interactive step: first the kept ReLUs, then what is truncated; or maxima by size of window."""
    step = outline.steps[number]
    value = step.inputs[0]
    if step.operation == "activate":
        width, shift, ceiling, kept = step.fields
        parts = []
        places = [place for place, bit in enumerate(kept) if bit]
        if places and ceiling is None and relus == "by shares":
            shape = GateShape(width, shift, max(step.ring_bits, width - shift + 1))
            parts.append(GatedPart(shape, value, number, [[place] for place in places]))
        elif places:
            if ceiling is None:
                circuit = garble.relu(width, shift, step.ring_bits)
            else:
                circuit = garble.clip(width, shift, step.ring_bits, ceiling)
            rounding = 1 << shift >> 1
            parts.append(GarbledPart(circuit, value, number, [[place] for place in places], places, width, rounding))
        places = [place for place, bit in enumerate(kept) if not bit]
        if places:
            ring = width + 1
            shape = garble.Truncation(ring, shift, max(step.ring_bits, ring - shift + 1))
            parts.append(TruncatedPart(shape, value, number, places))
        return parts
    if step.operation == "gate":
        return gate_parts(step, value, number)
    pool, width = step.fields
    by_size = {}
    for place, window in enumerate(windows(outline.shape(value), pool)):
        by_size.setdefault(len(window), []).append((place, window))
    return [GarbledPart(garble.maximum(size, width, step.ring_bits), value, number,
                        [window for _, window in found], [place for place, _ in found], width)
            for size, found in sorted(by_size.items())]
