"""One inference of a session, both parties side by side."""

from .bits import pack, signed, unpack
from .gates import Counted
from .he import ClientKey, ServerLayer
from .outline import INTERACTIVE, apply_local, convolve, scalars
from .plan import Plan
from .randomness import CLIENT_TO_SERVER, SERVER_TO_CLIENT, derive, generator, scope
from .words import GARBLED, GATES, HOMOMORPHIC, TRANSFER, VALUES


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
            if step.operation in INTERACTIVE:
                self.blinds[number] = draw(scalars(step.shape))
                self.shares[number + 1] = [word & (1 << step.ring_bits) - 1 for word in self.blinds[number]]
        self.keys, place = [], scope(session, inference, 0, CLIENT_TO_SERVER)
        self.reverse_key = generator(derive(root, "gate hash key base", place)).u128()
        self.reverse_counted = Counted(self.reverse_key)

    def make_key(self, number, seed):
        """Its key for a ring; what the server gets of it."""
        place = scope(self.session, self.inference, number, CLIENT_TO_SERVER)
        self.keys.append(ClientKey(self.plan.rings[number], self.root, place))
        return self.keys[-1].public_key(seed, self.root, place)

    def request(self, number, seed):
        step = self.plan.outline.steps[number]
        ring = (1 << step.ring_bits) - 1
        blinds = [value & ring for value in self.shares[step.inputs[0]]]
        place = scope(self.session, self.inference, number + 1, CLIENT_TO_SERVER)
        key = self.keys[self.plan.keys[number]]
        return key.request(self.plan.layers[number], seed, number + 1, blinds, self.root, place)

    def read_second(self, number, half):
        return self.keys[self.plan.keys[number]].read_second(self.plan.layers[number], half)

    def take_answer(self, number, answer, second_halves):
        step, key = self.plan.outline.steps[number], self.keys[self.plan.keys[number]]
        share = key.decrypt(self.plan.layers[number], answer, second_halves)
        share = shift_channels(share, step.fields[1], step.shape)
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

    def answer(self, number, public_key, seed, request_bytes, zeros_root, is_first, has_halves):
        """The answer, and second halves for a client that has them from before."""
        place = lambda session, inference: scope(session, inference, number + 1, SERVER_TO_CLIENT)
        zeros = derive(zeros_root, "he encryption of zero", place(seed, bytes(16)))
        masks = derive(self.masks_root, "he answer mask", place(self.session, self.inference))
        answer = ServerLayer(self.plan.layers[number], number + 1, self.layers[number]["weights"], public_key, seed,
                             request_bytes, zeros, masks, is_first, is_first and not has_halves)
        self.masks[number] = answer.share
        return answer.message, answer.second_halves if has_halves else []

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


class Inference:
    """One inference of a session: its messages as (name, sender, kind, body)."""

    def __init__(self, session, number):
        self.session, self.number = session, number
        # Parts keep what both parties hold for this inference.
        self.plan = plan = Plan(session.plan.outline, session.vector["mode"], session.vector["relus"])
        self.name = session.session[:8] + number.to_bytes(8, "little")
        root = f"root of inference {number}"
        self.client = Client(plan, session.session, self.name, session.client_seed[root])
        self.server = Server(plan, session.session, self.name, session.server_seed[root],
                             session.vector["server"]["layers"], session.offset)

    def prepare(self):
        session, plan, client, server = self.session, self.plan, self.client, self.server
        seed, zeros_root, has_halves = session.public_seed, session.zeros_root, session.vector["has second halves"]
        public_keys = [client.make_key(number, seed) for number in range(len(plan.rings))]
        for number, key in enumerate(public_keys):
            yield f"public key {number}", "client", HOMOMORPHIC, key
        for number in plan.flights[0][1]:
            client.follow(number)
        for weighted, local in plan.flights[1:]:
            requests = {number: client.request(number, seed) for number in weighted}
            for number in weighted:
                yield f"request of step {number}", "client", HOMOMORPHIC, requests[number]
            for number in weighted:
                key = public_keys[plan.keys[number]]
                is_first, known = self.number == 1, session.second_halves[number]
                answer, had = server.answer(number, key, seed, requests[number], zeros_root, is_first, has_halves)
                yield f"answer of step {number}", "server", HOMOMORPHIC, answer
                known += [client.read_second(number, half) for half in had]
                client.take_answer(number, answer, known)
            for number in local:
                client.follow(number)
        if plan.parts:
            yield from self.transfers()
            yield from self.offers()

    def transfers(self):
        session, plan, client, server = self.session, self.plan, self.client, self.server
        choices = b"".join(part.choices(client) for part in plan.parts)
        corrections, self.client_labels = session.receiver.extend(choices)
        yield "corrections", "client", TRANSFER, corrections
        self.server_labels = session.sender.extend(corrections, plan.transfers)
        if not plan.reverse_transfers:
            return
        if self.number == 1:
            sums = session.reverse_receiver.finish(session.reverse_sender.message)
            yield "reverse tree sums", "server", TRANSFER, sums
            session.reverse_sender.finish(sums)
        corrections = server.draw_reverse(session.reverse_receiver)
        yield "reverse corrections", "server", TRANSFER, corrections
        client.reverse_labels = session.reverse_sender.extend(corrections, plan.reverse_transfers)
        client.reverse_offset = session.reverse_offset

    def offers(self):
        plan, client, server, place = self.plan, self.client, self.server, 0
        yield "hash key", "server", GARBLED, server.hash_key.to_bytes(16, "little")
        server.counted, client.counted = Counted(server.hash_key), Counted(server.hash_key)
        for number, part in enumerate(plan.parts):
            offer = part.offer(server, self.server_labels[place:place + part.transfers])
            yield f"offer of part {number}", "server", part.kind, offer
            part.accept(client, self.client_labels[place:place + part.transfers], offer)
            place += part.transfers
        if plan.reverse_transfers:
            yield "reverse hash key", "client", GATES, client.reverse_key.to_bytes(16, "little")
            server.reverse_counted = Counted(client.reverse_key)
        for number, part in enumerate(plan.parts):
            if part.advance_bytes:
                yield f"advance of part {number}", "client", part.kind, part.advance
                part.take_advance(server, part.advance)

    def classify(self):
        plan, client, server = self.plan, self.client, self.server
        outline, last = plan.outline, len(plan.outline.steps)
        ring = outline.image_ring_bits
        pixels = outline.encode_image(self.session.vector["client"]["image"])
        blinded = [value - blind & (1 << ring) - 1 for value, blind in zip(pixels, client.shares[0])]
        yield "image", "client", VALUES, pack(blinded, ring)
        server.shares[0] = blinded
        for number in plan.rounds[0][1]:
            server.follow(number)
        name = {id(part): number for number, part in enumerate(plan.parts)}
        for (_, local), parts in zip(plan.rounds[1:], plan.round_parts):
            openings = {}
            for part in parts:
                openings[id(part)] = part.open(server.shares[part.value])
                yield f"opening of part {name[id(part)]}", "server", part.kind, openings[id(part)]
            values = {part.step: [0] * scalars(outline.steps[part.step].shape) for part in parts}
            for part in parts:
                answer = part.reply(openings[id(part)], client.blinds[part.step])
                yield f"reply of part {name[id(part)]}", "client", part.kind, answer
                part.finish(answer, values[part.step])
            for step, made in values.items():
                server.shares[step + 1] = [value & (1 << outline.steps[step].ring_bits) - 1 for value in made]
            for number in local:
                server.follow(number)
        if plan.argmax:
            opening = plan.argmax.open(server.shares[last])
            yield f"opening of part {len(plan.parts) - 1}", "server", GARBLED, opening
            self.answer = plan.argmax.evaluated[0].decode(opening)
            return
        width, drop = outline.ring_bits(last) - outline.logit_drop, outline.logit_drop
        logits = pack([value >> drop for value in server.shares[last]], width)
        yield "logits", "server", VALUES, logits
        upper = [value >> drop for value in client.shares[last]]
        self.answer = [signed(one + other & (1 << width) - 1, width)
                       for one, other in zip(unpack(logits, outline.classes, width), upper)]
