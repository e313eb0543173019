"""Both parties of one session, from their seeds to the answer. `Session.frames` gives every frame in order."""

from . import garble, ot
from .bits import pack, signed, unpack
from .blake3 import blake3, derive_key
from .garble import LANES, Hash
from .he import ClientKey, Parameters, ServerLayer, public_seed
from .outline import Outline, apply_local, convolve, scalars, windows
from .packing import Layout
from .randomness import CLIENT_TO_SERVER, SERVER_TO_CLIENT, context, derive, generator, scope
from .words import MAGIC, PROTOCOL_VERSION, client_hello, header, reply, request, server_hello

SET_UP, HOMOMORPHIC, TRANSFER, GARBLED, TRUNCATION, VALUES, SERVICE = range(1, 8)
LOGITS, CLASS = 0, 1


class GarbledPart:
    """Positions of one step that one circuit serves. `inputs` has a list of places for each circuit."""

    kind = GARBLED

    def __init__(self, circuit, value, step, inputs, outputs, input_bits, rounding=0):
        self.circuit, self.value, self.step = circuit, value, step
        self.inputs, self.outputs, self.input_bits, self.rounding = inputs, outputs, input_bits, rounding
        count = len(inputs)
        self.chunks = [(start, min(LANES, count - start)) for start in range(0, count, LANES)]
        self.offer_bytes = sum(lanes * circuit.lane_bytes for _, lanes in self.chunks)
        self.opening_bytes = sum(circuit.label_bytes(lanes) for _, lanes in self.chunks)
        self.reply_bytes = sum(circuit.reply_bytes(lanes) for _, lanes in self.chunks)
        self.transfers = sum(-(-lanes * circuit.client_wires // 8) * 8 for _, lanes in self.chunks)
        self.hashes = circuit.hashes * len(self.chunks)

    def gather(self, share, start, lanes, rounding=0):
        mask = (1 << self.input_bits) - 1
        return [[share[place] + rounding & mask for place in places] for places in self.inputs[start:start + lanes]]

    def choices(self, share):
        return b"".join(garble.choices(self.circuit, self.gather(share, *chunk)) for chunk in self.chunks)

    def offer(self, server, labels):
        self.garbled, place, counter = [], 0, server.counter
        for start, lanes in self.chunks:
            wires = lanes * self.circuit.client_wires
            own = labels[place:place + wires]
            place += -(-wires // 8) * 8
            chunk = garble.ServerChunk(self.circuit, lanes, server.hash_of, counter, server.offset, own, server.seeds)
            counter += self.circuit.hashes
            self.garbled.append(chunk)
        return b"".join(chunk.tables for chunk in self.garbled)

    def accept(self, client, labels, offer):
        self.evaluated, place, read, counter = [], 0, 0, client.counter
        for _, lanes in self.chunks:
            wires, size = lanes * self.circuit.client_wires, lanes * self.circuit.lane_bytes
            own, tables = labels[place:place + wires], offer[read:read + size]
            place, read = place + -(-wires // 8) * 8, read + size
            self.evaluated.append(garble.ClientChunk(self.circuit, lanes, client.hash_of, counter, own, tables))
            counter += self.circuit.hashes

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

    kind = TRUNCATION

    def __init__(self, shape, value, step, places):
        self.shape, self.value, self.step, self.places = shape, value, step, places
        count = len(places)
        self.offer_bytes = -(-count * shape.wrap_bits // 8)
        self.opening_bytes = -(-count // 8)
        self.reply_bytes = -(-count * shape.output_bits // 8)
        self.transfers = -(-count // 8) * 8
        self.hashes = -(-count // LANES)

    def gather(self, share):
        return [share[place] & (1 << self.shape.width) - 1 for place in self.places]

    def choices(self, share):
        return self.shape.choices(self.gather(share))

    def offer(self, server, labels):
        labels = labels[:len(self.places)]
        self.server = garble.ServerTruncation(
            self.shape, server.hash_of, server.counter, server.offset, labels, server.coins)
        return self.server.offer

    def accept(self, client, labels, offer):
        mask = (1 << self.shape.output_bits) - 1
        blinds = [client.blinds[self.step][place] & mask for place in self.places]
        shares = self.gather(client.shares[self.value])
        labels = labels[:len(self.places)]
        self.client = garble.ClientTruncation(
            self.shape, client.hash_of, client.counter, labels, shares, blinds, offer)

    def open(self, share):
        return self.server.open(self.gather(share))

    def reply(self, opening, _blinds):
        return self.client.reply(opening)

    def finish(self, message, values):
        for place, value in zip(self.places, self.server.finish(message)):
            values[place] = value


def parts_of(outline, number):
    """The parts of an interactive step: first the kept ReLUs, then what is truncated; or maxima by size of window."""
    step = outline.steps[number]
    value = step.inputs[0]
    if step.operation == "activate":
        width, shift, ceiling, kept = step.fields
        parts = []
        places = [place for place, bit in enumerate(kept) if bit]
        if places:
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
    pool, width = step.fields
    by_size = {}
    for place, window in enumerate(windows(outline.shape(value), pool)):
        by_size.setdefault(len(window), []).append((place, window))
    return [GarbledPart(garble.maximum(size, width, step.ring_bits), value, number,
                        [window for _, window in found], [place for place, _ in found], width)
            for size, found in sorted(by_size.items())]


class Plan:
    """What both parties derive from the outline and from what the client will learn."""

    def __init__(self, outline, mode):
        self.outline, self.mode = outline, mode
        self.rounds, self.flights = outline.schedule()
        self.plan_linear()
        self.round_parts = [[part for number in interactive for part in parts_of(outline, number)]
                            for interactive, _ in self.rounds[1:]]
        self.parts = [part for parts in self.round_parts for part in parts]
        self.argmax = None
        if mode == CLASS:
            value, width = len(outline.steps), outline.ring_bits(len(outline.steps))
            circuit = garble.argmax(outline.classes, width)
            places = [list(range(outline.classes))]
            self.argmax = GarbledPart(circuit, value, None, places, [0], width)
            self.parts.append(self.argmax)
        self.transfers = sum(part.transfers for part in self.parts)

    def plan_linear(self):
        """Parameters, and for each linear step which of them it uses and its layout."""
        outline = self.outline
        layers = [(number, step.fields[0], outline.shape(step.inputs[0]), step.ring_bits)
                  for number, step in enumerate(outline.steps) if step.operation == "linear"]

        def choice(lowest, highest):
            shapes = [(conv, shape) for _, conv, shape, ring in layers if lowest <= ring <= highest]
            return Parameters(shapes, highest, outline.weight_bound)

        rings = sorted({ring for *_, ring in layers})
        narrow, self.parameters = rings[-1], [choice(0, rings[-1])]
        if self.parameters[0].kept > 1:
            # The widest ring whose answers fit one prime, and those below it, get a set of their own.
            for ring in reversed(rings[:-1]):
                below = choice(0, ring)
                if below.kept == 1:
                    narrow, self.parameters = ring, [below, choice(ring + 1, rings[-1])]
                    break
        self.jobs = {}
        for number, conv, shape, ring in layers:
            group = 1 if len(self.parameters) > 1 and ring > narrow else 0
            self.jobs[number] = group, Layout(conv, shape, self.parameters[group].degree)

    def messages(self):
        """Phase, kind, direction and length of every message."""
        outline, mode_bytes = self.outline, -(-scalars(self.outline.input) * self.outline.image_ring_bits // 8)
        listed = [(0, 0, 1, 97), (0, 0, 0, 129 + len(outline.data)), (0, 0, 1, 96)]
        listed += [(0, 0, 1, parameters.key_bytes()) for parameters in self.parameters]
        listed += [(0, 0, 1, 32), (0, 0, 0, 4096), (0, 0, 1, 8192)]
        for weighted, _ in self.flights[1:]:
            jobs = [(self.parameters[self.jobs[number][0]], self.jobs[number][1]) for number in weighted]
            listed += [(1, 1, 1, parameters.request_bytes(layout)) for parameters, layout in jobs]
            listed += [(1, 1, 0, parameters.answer_bytes(layout)) for parameters, layout in jobs]
        if self.transfers:
            listed += [(1, 2, 1, ot.message_bytes(self.transfers)), (1, 3, 0, 16)]
            listed += [(1, part.kind - 1, 0, part.offer_bytes) for part in self.parts]
        listed.append((2, 5, 1, mode_bytes))
        for parts in self.round_parts:
            listed += [(2, part.kind - 1, 0, part.opening_bytes) for part in parts]
            listed += [(2, part.kind - 1, 1, part.reply_bytes) for part in parts]
        if self.argmax:
            listed.append((2, 3, 0, self.argmax.opening_bytes))
        else:
            width = outline.ring_bits(len(outline.steps)) - outline.logit_drop
            listed.append((2, 5, 0, -(-outline.classes * width // 8)))
        return listed

    def digest(self):
        material = b""
        for parameters in self.parameters:
            numbers = parameters.numbers()
            material += b"".join(number.to_bytes(8, "little") for number in [len(numbers)] + numbers)
        for phase, kind, is_upward, length in self.messages():
            material += bytes([phase, kind, is_upward]) + length.to_bytes(8, "little")
        return derive_key(context("plan digest"), material)


def commitment(layers, salt):
    material = salt
    for layer in layers:
        for values, size in ((layer["weights"], 2), (layer["biases"], 8)):
            material += len(values).to_bytes(8, "little")
            material += b"".join(value.to_bytes(size, "little", signed=True) for value in values)
    return derive_key(context("weight commitment"), material)


def tag(name):
    return derive_key(context("frame tag"), name)[:8]


def shift_channels(values, shifts, shape):
    plane = shape.height * shape.width
    return [value << shifts[place // plane] for place, value in enumerate(values)]


class Party:
    def follow(self, number):
        step = self.plan.outline.steps[number]
        ring = (1 << step.ring_bits) - 1
        inputs = [[value & ring for value in self.shares[value_id]] for value_id in step.inputs]
        self.shares[number + 1] = [value & ring for value in apply_local(self.plan.outline, step, inputs)]


class Client(Party):
    def __init__(self, plan, session, inference, root):
        self.plan, self.session, self.inference, self.root = plan, session, inference, root
        outline = plan.outline
        words = generator(derive(root, "blind", scope(session, inference, 0, CLIENT_TO_SERVER)))
        draw = lambda count: [words.u64() for _ in range(count)]
        self.shares = {0: [word & (1 << outline.image_ring_bits) - 1 for word in draw(scalars(outline.input))]}
        self.blinds = {}
        for number, step in enumerate(outline.steps):
            if step.operation in ("activate", "maximum"):
                self.blinds[number] = draw(scalars(step.shape))
                self.shares[number + 1] = [word & (1 << step.ring_bits) - 1 for word in self.blinds[number]]

    def request(self, number, key):
        step, (_, layout) = self.plan.outline.steps[number], self.plan.jobs[number]
        ring = (1 << step.ring_bits) - 1
        blinds = [value & ring for value in self.shares[step.inputs[0]]]
        return key.request(layout, blinds, self.root,
                           scope(self.session, self.inference, number + 1, CLIENT_TO_SERVER))

    def take_answer(self, number, key, answer):
        step, (_, layout) = self.plan.outline.steps[number], self.plan.jobs[number]
        share = shift_channels(key.decrypt(layout, answer), step.fields[1], step.shape)
        self.shares[number + 1] = [value & (1 << step.ring_bits) - 1 for value in share]


class Server(Party):
    def __init__(self, plan, session, inference, root, layers, offset):
        self.plan, self.session, self.inference, self.root = plan, session, inference, root
        self.offset, self.shares, self.masks = offset, {}, {}
        numbers = [number for number, step in enumerate(plan.outline.steps) if step.operation == "linear"]
        self.layers = dict(zip(numbers, layers))
        place = scope(session, inference, 0, SERVER_TO_CLIENT)
        self.hash_key = generator(derive(root, "garble hash key base", place)).u128()
        self.seeds = generator(derive(root, "garble input labels", place))
        self.coins = generator(derive(root, "truncation bit", place))
        self.masks_root = derive(root, "root of answer masks", place)

    def answer(self, number, public_key, seed, request_bytes):
        group, layout = self.plan.jobs[number]
        place = scope(self.session, self.inference, number + 1, SERVER_TO_CLIENT)
        answer = ServerLayer(self.plan.parameters[group], layout, self.layers[number]["weights"], public_key, seed,
                             request_bytes, self.root, self.masks_root, place)
        self.masks[number] = answer.share
        return answer.message

    def follow(self, number):
        outline = self.plan.outline
        step = outline.steps[number]
        if step.operation != "linear":
            return super().follow(number)
        conv, shifts = step.fields
        layer = self.layers[number]
        products = convolve(conv, outline.shape(step.inputs[0]), step.shape, layer["weights"],
                            self.shares[step.inputs[0]])
        masked = [value + mask for value, mask in zip(products, self.masks[number])]
        plane = step.shape.height * step.shape.width
        shifted = shift_channels(masked, shifts, step.shape)
        self.shares[number + 1] = [value + layer["biases"][place // plane] & (1 << step.ring_bits) - 1
                                   for place, value in enumerate(shifted)]


class Session:
    """All frames of a session with one inference, in order, as (name, sender, header, body)."""

    def __init__(self, vector):
        self.vector = vector
        self.sent = {"client": 0, "server": 0}
        self.session_tag, self.inference_tag = MAGIC, bytes(8)
        self.answer = None

    def frame(self, name, sender, kind, body):
        step = self.sent[sender]
        self.sent[sender] += 1
        return name, sender, header(self.session_tag, self.inference_tag, step, sender, kind, len(body)), body

    def frames(self):
        vector, frame = self.vector, self.frame
        client_seed = {name: bytes.fromhex(vector["client"][name]) for name in
                       ("nonce", "key root", "transfer seed", "inference root")}
        server_seed = {name: bytes.fromhex(vector["server"][name]) for name in
                       ("nonce", "transfer root", "inference root", "salt")}
        mode, layers = {"logits": LOGITS, "class": CLASS}[vector["mode"]], vector["server"]["layers"]
        outline_bytes = bytes.fromhex(vector["server"]["outline"])
        # Set-up.
        yield frame("client hello", "client", SET_UP, client_hello(client_seed["nonce"], vector["mode"], vector["model"]))
        committed = commitment(layers, server_seed["salt"])
        hello = server_hello(server_seed["nonce"], vector["mode"], committed, vector["model"], outline_bytes)
        yield frame("server hello", "server", SET_UP, hello)
        plan = Plan(Outline(outline_bytes), mode)
        outline = plan.outline
        agreement = blake3(outline_bytes) + committed + plan.digest()
        yield frame("agreement", "client", SET_UP, agreement)
        binding = bytes.fromhex(vector["channel binding"])
        session = derive_key(context("session id"), PROTOCOL_VERSION.to_bytes(2, "little") + client_seed["nonce"]
                             + server_seed["nonce"] + agreement + bytes([mode]) + len(binding).to_bytes(8, "little")
                             + binding)
        self.session_tag = tag(session)
        seed = public_seed(client_seed["nonce"], server_seed["nonce"])
        keys, public_keys = [], []
        for number, parameters in enumerate(plan.parameters):
            place = scope(session, bytes(16), number, CLIENT_TO_SERVER)
            keys.append(ClientKey(parameters, client_seed["key root"], place))
            public_keys.append(keys[-1].public_key(seed, client_seed["key root"], place))
            yield frame(f"public key {number}", "client", SET_UP, public_keys[-1])
        receiver = ot.Receiver(session, generator(client_seed["transfer seed"]))
        yield frame("base point", "client", SET_UP, receiver.message)
        place = scope(session, bytes(16), 0, SERVER_TO_CLIENT)
        stream = generator(derive(server_seed["transfer root"], "garble offset", place))
        offset = stream.u128() | 1
        sender = ot.Sender(session, offset, receiver.message, stream)
        yield frame("base points", "server", SET_UP, sender.message)
        sums = receiver.finish(sender.message)
        sender.finish(sums)
        yield frame("tree sums", "client", SET_UP, sums)
        # Offline.
        yield frame("prepare", "client", SERVICE, request({"request": "prepare", "count": 1, "token hash": None}))
        yield frame("accepted", "server", SERVICE, reply({"reply": "accepted", "ids": []}))
        inference = session[:8] + (1).to_bytes(8, "little")
        self.inference_tag = tag(inference)
        client = Client(plan, session, inference, client_seed["inference root"])
        server = Server(plan, session, inference, server_seed["inference root"], layers, offset)
        for number in plan.flights[0][1]:
            client.follow(number)
        for weighted, local in plan.flights[1:]:
            requests = {}
            for number in weighted:
                requests[number] = client.request(number, keys[plan.jobs[number][0]])
                yield frame(f"request of step {number}", "client", HOMOMORPHIC, requests[number])
            for number in weighted:
                group = plan.jobs[number][0]
                answer = server.answer(number, public_keys[group], seed, requests[number])
                yield frame(f"answer of step {number}", "server", HOMOMORPHIC, answer)
                client.take_answer(number, keys[group], answer)
            for number in local:
                client.follow(number)
        yield from self.offers(plan, client, server, receiver, sender)
        # Online.
        self.inference_tag = bytes(8)
        yield frame("classify", "client", SERVICE, request({"request": "classify", "count": 1}))
        yield frame("accepted", "server", SERVICE, reply({"reply": "accepted", "ids": []}))
        self.inference_tag = tag(inference)
        yield from self.online(plan, client, server)
        self.inference_tag = bytes(8)
        yield frame("bye", "client", SERVICE, request({"request": "bye"}))

    def offers(self, plan, client, server, receiver, sender):
        if not plan.parts:
            return
        choices = b"".join(part.choices(client.shares[part.value]) for part in plan.parts)
        corrections, client_labels = receiver.extend(choices)
        yield self.frame("corrections", "client", TRANSFER, corrections)
        server_labels = sender.extend(corrections, plan.transfers)
        hash_key = server.hash_key.to_bytes(16, "little")
        yield self.frame("hash key", "server", GARBLED, hash_key)
        server.hash_of = client.hash_of = Hash(server.hash_key)
        server.counter = client.counter = place = 0
        for number, part in enumerate(plan.parts):
            offer = part.offer(server, server_labels[place:place + part.transfers])
            yield self.frame(f"offer of part {number}", "server", part.kind, offer)
            part.accept(client, client_labels[place:place + part.transfers], offer)
            place += part.transfers
            server.counter += part.hashes
            client.counter += part.hashes

    def online(self, plan, client, server):
        outline, last = plan.outline, len(plan.outline.steps)
        ring = outline.image_ring_bits
        pixels = outline.encode_image(self.vector["client"]["image"])
        blinded = [value - blind & (1 << ring) - 1 for value, blind in zip(pixels, client.shares[0])]
        yield self.frame("image", "client", VALUES, pack(blinded, ring))
        server.shares[0] = blinded
        for number in plan.rounds[0][1]:
            server.follow(number)
        name = {id(part): number for number, part in enumerate(plan.parts)}
        for (_, local), parts in zip(plan.rounds[1:], plan.round_parts):
            openings = {}
            for part in parts:
                openings[id(part)] = part.open(server.shares[part.value])
                yield self.frame(f"opening of part {name[id(part)]}", "server", part.kind, openings[id(part)])
            values = {part.step: [0] * scalars(outline.steps[part.step].shape) for part in parts}
            for part in parts:
                answer = part.reply(openings[id(part)], client.blinds[part.step])
                yield self.frame(f"reply of part {name[id(part)]}", "client", part.kind, answer)
                part.finish(answer, values[part.step])
            for step, made in values.items():
                server.shares[step + 1] = [value & (1 << outline.steps[step].ring_bits) - 1 for value in made]
            for number in local:
                server.follow(number)
        if plan.argmax:
            opening = plan.argmax.open(server.shares[last])
            yield self.frame(f"opening of part {len(plan.parts) - 1}", "server", GARBLED, opening)
            self.answer = plan.argmax.evaluated[0].decode(opening)
            return
        width, drop = outline.ring_bits(last) - outline.logit_drop, outline.logit_drop
        logits = pack([value >> drop for value in server.shares[last]], width)
        yield self.frame("logits", "server", VALUES, logits)
        upper = [value >> drop for value in client.shares[last]]
        self.answer = [signed(one + other & (1 << width) - 1, width)
                       for one, other in zip(unpack(logits, outline.classes, width), upper)]
