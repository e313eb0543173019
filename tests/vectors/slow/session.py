"""Both parties of one session, from their seeds to the answer. `Session.frames` gives every frame in order."""

from . import ot
from .bits import pack, signed, unpack
from .blake3 import blake3, derive_key
from .gates import Counted
from .he import ClientKey, ServerLayer, public_seed
from .outline import Outline, apply_local, convolve, scalars
from .plan import Plan
from .randomness import CLIENT_TO_SERVER, SERVER_TO_CLIENT, context, derive, generator, scope
from .words import (GARBLED, GATES, HOMOMORPHIC, MAGIC, PROTOCOL_VERSION, SERVICE, SET_UP, TRANSFER, VALUES, client_hello,
                    header, reply, request, server_hello, terms)


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
        place = scope(session, inference, 0, CLIENT_TO_SERVER)
        self.reverse_key = generator(derive(root, "gate hash key base", place)).u128()
        self.reverse_counted = Counted(self.reverse_key)

    def request(self, number, key):
        step = self.plan.outline.steps[number]
        ring = (1 << step.ring_bits) - 1
        blinds = [value & ring for value in self.shares[step.inputs[0]]]
        return key.request(self.plan.layers[number], blinds, self.root,
                           scope(self.session, self.inference, number + 1, CLIENT_TO_SERVER))

    def take_answer(self, number, key, answer):
        step = self.plan.outline.steps[number]
        share = shift_channels(key.decrypt(self.plan.layers[number], answer), step.fields[1], step.shape)
        self.shares[number + 1] = [value & (1 << step.ring_bits) - 1 for value in share]

    def take_reverse(self, count):
        """Its next labels of choice 0, where the server chooses; what fills up to whole bytes is passed over."""
        taken, self.reverse_labels = self.reverse_labels[:count], self.reverse_labels[-(-count // 8) * 8:]
        return taken


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
        self.signs = generator(derive(root, "gate sign mask", place))

    def draw_reverse(self, receiver):
        """Its coins for all signs, and what lets the client send by them."""
        count = self.plan.reverse_transfers // 8
        # The stream comes in words of four bytes; nothing is drawn after this.
        choices = self.signs.bytes(-(-count // 4) * 4)[:count]
        self.reverse_choices = [byte >> bit & 1 for byte in choices for bit in range(8)]
        corrections, self.reverse_labels = receiver.extend(choices)
        return corrections

    def take_reverse(self, count):
        """The next coins and the labels it got for them."""
        both, whole = (self.reverse_choices[:count], self.reverse_labels[:count]), -(-count // 8) * 8
        self.reverse_choices, self.reverse_labels = self.reverse_choices[whole:], self.reverse_labels[whole:]
        return both

    def answer(self, number, public_key, seed, request_bytes):
        place = scope(self.session, self.inference, number + 1, SERVER_TO_CLIENT)
        answer = ServerLayer(self.plan.layers[number], self.layers[number]["weights"], public_key, seed,
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
        vector = self.vector
        seeds = lambda party, *names: {name: bytes.fromhex(vector[party][name]) for name in names}
        self.client_seed = seeds("client", "nonce", "key root", "transfer seed", "reverse transfer root", "inference root")
        self.server_seed = seeds("server", "nonce", "transfer root", "inference root", "salt")
        yield from self.hellos()
        yield from self.keys()
        yield from self.base_transfers()
        yield from self.prepare()
        yield from self.classify()
        yield self.frame("bye", "client", SERVICE, request({"request": "bye"}))

    def hellos(self):
        vector, client, server = self.vector, self.client_seed, self.server_seed
        agreed, outline = (vector["mode"], vector["relus"], vector["depth"]), bytes.fromhex(vector["server"]["outline"])
        yield self.frame("client hello", "client", SET_UP, client_hello(client["nonce"], agreed, vector["model"]))
        committed = commitment(vector["server"]["layers"], server["salt"])
        hello = server_hello(server["nonce"], agreed, committed, vector["model"], outline)
        yield self.frame("server hello", "server", SET_UP, hello)
        self.plan = Plan(Outline(outline), vector["mode"], vector["relus"])
        agreement = blake3(outline) + committed + self.plan.digest()
        yield self.frame("agreement", "client", SET_UP, agreement)
        binding = bytes.fromhex(vector["channel binding"])
        material = PROTOCOL_VERSION.to_bytes(2, "little") + client["nonce"] + server["nonce"] + agreement
        material += terms(*agreed) + len(binding).to_bytes(8, "little") + binding
        self.session = derive_key(context("session id"), material)
        self.session_tag = tag(self.session)
        self.public_seed = public_seed(client["nonce"], server["nonce"])

    def keys(self):
        root = self.client_seed["key root"]
        self.secret_keys, self.public_keys = [], []
        for number, ring in enumerate(self.plan.rings):
            place = scope(self.session, bytes(16), number, CLIENT_TO_SERVER)
            key = ClientKey(ring, root, place)
            self.secret_keys.append(key)
            self.public_keys.append(key.public_key(self.public_seed, root, place))
            yield self.frame(f"public key {number}", "client", SET_UP, self.public_keys[-1])

    def base_transfers(self):
        """Those in which the client chooses, and beside them those in which the server does."""
        session, depth, reverses = self.session, self.vector["depth"], self.plan.reverse_transfers > 0
        self.receiver = ot.Receiver(session, depth, generator(self.client_seed["transfer seed"]))
        yield self.frame("base point", "client", SET_UP, self.receiver.message)
        place = scope(session, bytes(16), 0, SERVER_TO_CLIENT)
        stream = generator(derive(self.server_seed["transfer root"], "garble offset", place))
        self.offset = stream.u128() | 1
        self.sender = ot.Sender(session, depth, self.offset, self.receiver.message, stream)
        yield self.frame("base points", "server", SET_UP, self.sender.message)
        if reverses:
            self.reverse_receiver = ot.Receiver(ot.reversed_session(session), depth, stream)
            yield self.frame("reverse base point", "server", SET_UP, self.reverse_receiver.message)
        sums = self.receiver.finish(self.sender.message)
        self.sender.finish(sums)
        yield self.frame("tree sums", "client", SET_UP, sums)
        if reverses:
            place = scope(session, bytes(16), 0, CLIENT_TO_SERVER)
            stream = generator(derive(self.client_seed["reverse transfer root"], "gate offset", place))
            self.reverse_offset = stream.u128() | 1
            point = self.reverse_receiver.message
            self.reverse_sender = ot.Sender(ot.reversed_session(session), depth, self.reverse_offset, point, stream)
            yield self.frame("reverse base points", "client", SET_UP, self.reverse_sender.message)

    def prepare(self):
        yield self.frame("prepare", "client", SERVICE, request({"request": "prepare", "count": 1, "token hash": None}))
        yield self.frame("accepted", "server", SERVICE, reply({"reply": "accepted", "ids": []}))
        plan, session, inference = self.plan, self.session, self.session[:8] + (1).to_bytes(8, "little")
        self.inference_tag = self.own_tag = tag(inference)
        self.client = client = Client(plan, session, inference, self.client_seed["inference root"])
        self.server = server = Server(plan, session, inference, self.server_seed["inference root"],
                                      self.vector["server"]["layers"], self.offset)
        for number in plan.flights[0][1]:
            client.follow(number)
        for weighted, local in plan.flights[1:]:
            requests = {}
            for number in weighted:
                requests[number] = client.request(number, self.secret_keys[plan.keys[number]])
                yield self.frame(f"request of step {number}", "client", HOMOMORPHIC, requests[number])
            for number in weighted:
                key = plan.keys[number]
                answer = server.answer(number, self.public_keys[key], self.public_seed, requests[number])
                yield self.frame(f"answer of step {number}", "server", HOMOMORPHIC, answer)
                client.take_answer(number, self.secret_keys[key], answer)
            for number in local:
                client.follow(number)
        if plan.parts:
            yield from self.transfers()
            yield from self.offers()
        self.inference_tag = bytes(8)

    def transfers(self):
        plan, client, server = self.plan, self.client, self.server
        choices = b"".join(part.choices(client) for part in plan.parts)
        corrections, self.client_labels = self.receiver.extend(choices)
        yield self.frame("corrections", "client", TRANSFER, corrections)
        self.server_labels = self.sender.extend(corrections, plan.transfers)
        if not plan.reverse_transfers:
            return
        sums = self.reverse_receiver.finish(self.reverse_sender.message)
        yield self.frame("reverse tree sums", "server", TRANSFER, sums)
        self.reverse_sender.finish(sums)
        corrections = server.draw_reverse(self.reverse_receiver)
        yield self.frame("reverse corrections", "server", TRANSFER, corrections)
        client.reverse_labels = self.reverse_sender.extend(corrections, plan.reverse_transfers)
        client.reverse_offset = self.reverse_offset

    def offers(self):
        plan, client, server, place = self.plan, self.client, self.server, 0
        yield self.frame("hash key", "server", GARBLED, server.hash_key.to_bytes(16, "little"))
        server.counted, client.counted = Counted(server.hash_key), Counted(server.hash_key)
        for number, part in enumerate(plan.parts):
            offer = part.offer(server, self.server_labels[place:place + part.transfers])
            yield self.frame(f"offer of part {number}", "server", part.kind, offer)
            part.accept(client, self.client_labels[place:place + part.transfers], offer)
            place += part.transfers
        if plan.reverse_transfers:
            yield self.frame("reverse hash key", "client", GATES, client.reverse_key.to_bytes(16, "little"))
            server.reverse_counted = Counted(client.reverse_key)
        for number, part in enumerate(plan.parts):
            if part.advance_bytes:
                yield self.frame(f"advance of part {number}", "client", part.kind, part.advance)
                part.take_advance(server, part.advance)

    def classify(self):
        yield self.frame("classify", "client", SERVICE, request({"request": "classify", "count": 1}))
        yield self.frame("accepted", "server", SERVICE, reply({"reply": "accepted", "ids": []}))
        self.inference_tag = self.own_tag
        yield from self.online(self.plan, self.client, self.server)
        self.inference_tag = bytes(8)

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
