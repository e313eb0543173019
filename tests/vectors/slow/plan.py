"""What both parties derive from the outline: linear layers, parts of interactive steps, and every message's length."""

from . import garble, ot
from .blake3 import derive_key
from .he import Layer
from .outline import scalars
from .parts import GarbledPart, parts_of
from .randomness import context
from .tolerance import tolerances
from .words import GARBLED, GATES, HOMOMORPHIC, SET_UP, TRANSFER, TRUNCATION, VALUES

# A kind's number in the digest.
DIGEST_KINDS = (SET_UP, HOMOMORPHIC, TRANSFER, GARBLED, GATES, TRUNCATION, VALUES)


class Plan:
    """What both parties derive from the outline and from what the client will learn."""

    def __init__(self, outline, mode, relus):
        self.outline = outline
        self.rounds, self.flights = outline.schedule()
        self.plan_linear()
        self.round_parts = [[part for number in interactive for part in parts_of(outline, number, relus)]
                            for interactive, _ in self.rounds[1:]]
        self.parts = [part for parts in self.round_parts for part in parts]
        self.argmax = None
        if mode == "class":
            value, width = len(outline.steps), outline.ring_bits(len(outline.steps))
            circuit = garble.argmax(outline.classes, width)
            places = [list(range(outline.classes))]
            self.argmax = GarbledPart(circuit, value, None, places, [0], width)
            self.parts.append(self.argmax)
        self.transfers = sum(part.transfers for part in self.parts)
        self.reverse_transfers = sum(part.reverse_transfers for part in self.parts)

    def plan_linear(self):
        """The linear layers by step, the rings in the order of their first layers, and the number of each layer's ring."""
        outline, tolerated = self.outline, tolerances(self.outline)
        self.layers, self.rings, self.keys = {}, [], {}
        for number, step in enumerate(outline.steps):
            if step.operation != "linear":
                continue
            layer = Layer(step.fields[0], outline.shape(step.inputs[0]), step.ring_bits, tolerated[number],
                          outline.weight_bound)
            if layer.ring not in self.rings:
                self.rings.append(layer.ring)
            self.layers[number], self.keys[number] = layer, self.rings.index(layer.ring)

    def messages(self):
        """Phase, kind, direction and length of every message of a session with one inference, where trees have depth 4."""
        outline, depth = self.outline, 4
        listed = [(0, SET_UP, 1, 99), (0, SET_UP, 0, 131 + len(outline.data)), (0, SET_UP, 1, 97)]
        reverses = self.reverse_transfers > 0
        listed += [(0, SET_UP, 1, 32), (0, SET_UP, 0, 4096)] + [(0, SET_UP, 0, 32)] * reverses
        listed += [(0, SET_UP, 1, 8192)] + [(0, SET_UP, 1, 4096)] * reverses
        listed += [(1, HOMOMORPHIC, 1, ring.key_bytes()) for ring in self.rings]
        for weighted, _ in self.flights[1:]:
            listed += [(1, HOMOMORPHIC, 1, self.layers[number].request_bytes()) for number in weighted]
            listed += [(1, HOMOMORPHIC, 0, self.layers[number].answer_bytes()) for number in weighted]
        if self.transfers:
            listed.append((1, TRANSFER, 1, ot.message_bytes(self.transfers, depth)))
            if reverses:
                listed += [(1, TRANSFER, 0, 8192), (1, TRANSFER, 0, ot.message_bytes(self.reverse_transfers, depth))]
            listed.append((1, GARBLED, 0, 16))
            listed += [(1, part.kind, 0, part.offer_bytes) for part in self.parts]
            listed += [(1, GATES, 1, 16)] * reverses
            listed += [(1, part.kind, 1, part.advance_bytes) for part in self.parts if part.advance_bytes]
        listed.append((2, VALUES, 1, -(-scalars(outline.input) * outline.image_ring_bits // 8)))
        for parts in self.round_parts:
            listed += [(2, part.kind, 0, part.opening_bytes) for part in parts]
            listed += [(2, part.kind, 1, part.reply_bytes) for part in parts]
        if self.argmax:
            listed.append((2, GARBLED, 0, self.argmax.opening_bytes))
        else:
            width = outline.ring_bits(len(outline.steps)) - outline.logit_drop
            listed.append((2, VALUES, 0, -(-outline.classes * width // 8)))
        return listed

    def digest(self):
        material = b""
        for layer in self.layers.values():
            for numbers in layer.numbers(), layer.layout.places():
                material += b"".join(number.to_bytes(8, "little") for number in [len(numbers)] + numbers)
        for phase, kind, is_upward, length in self.messages():
            material += bytes([phase, DIGEST_KINDS.index(kind), is_upward]) + length.to_bytes(8, "little")
        return derive_key(context("plan digest"), material)
