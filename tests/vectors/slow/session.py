"""Both parties of one session, from their seeds to the answers. `Session.frames` gives every frame in order."""

from . import ot
from .blake3 import blake3, derive_key
from .he import public_seed
from .inference import Inference
from .outline import Outline
from .plan import Plan
from .randomness import CLIENT_TO_SERVER, SERVER_TO_CLIENT, context, derive, generator, scope
from .words import MAGIC, PROTOCOL_VERSION, SERVICE, SET_UP, client_hello, header, reply, request, server_hello, terms


def commitment(layers, salt):
    material = salt
    for layer in layers:
        for values, size in ((layer["weights"], 2), (layer["biases"], 8)):
            material += len(values).to_bytes(8, "little")
            material += b"".join(value.to_bytes(size, "little", signed=True) for value in values)
    return derive_key(context("weight commitment"), material)


def tag(name):
    return derive_key(context("frame tag"), name)[:8]


class Session:
    """All frames of a session, in order, as (name, sender, header, body). All inferences are prepared, then all finished."""

    def __init__(self, vector):
        self.vector = vector
        self.sent = {"client": 0, "server": 0}
        self.session_tag, self.inference_tag = MAGIC, bytes(8)
        self.answers = []

    def frame(self, name, sender, kind, body):
        step = self.sent[sender]
        self.sent[sender] += 1
        return name, sender, header(self.session_tag, self.inference_tag, step, sender, kind, len(body)), body

    def frames(self):
        vector = self.vector
        seeds = lambda party: {name: bytes.fromhex(value) for name, value in vector[party].items()
                               if name in ("nonce", "salt", "transfer seed") or "root" in name}
        self.client_seed, self.server_seed = seeds("client"), seeds("server")
        yield from self.hellos()
        yield from self.base_transfers()
        count = vector["inferences"]
        yield self.frame("prepare", "client", SERVICE, request({"request": "prepare", "count": count, "token hash": None}))
        yield self.frame("accepted", "server", SERVICE, reply({"reply": "accepted", "ids": []}))
        prepared, self.second_halves = [], {number: [] for number in self.plan.layers}
        for number in range(1, count + 1):
            inference = Inference(self, number)
            yield from self.of_inference(inference, inference.prepare())
            prepared.append(inference)
        for inference in prepared:
            yield self.frame("classify", "client", SERVICE, request({"request": "classify", "count": 1}))
            yield self.frame("accepted", "server", SERVICE, reply({"reply": "accepted", "ids": []}))
            yield from self.of_inference(inference, inference.classify())
            self.answers.append(inference.answer)
        yield self.frame("bye", "client", SERVICE, request({"request": "bye"}))

    def of_inference(self, inference, messages):
        """Frames that have the tag of an inference."""
        self.inference_tag = tag(inference.name)
        for message in messages:
            yield self.frame(*message)
        self.inference_tag = bytes(8)

    def hellos(self):
        vector, client, server = self.vector, self.client_seed, self.server_seed
        agreed, outline = (vector["mode"], vector["relus"], vector["depth"]), bytes.fromhex(vector["server"]["outline"])
        yield self.frame("client hello", "client", SET_UP, client_hello(client["nonce"], agreed, vector["model"]))
        committed = commitment(vector["server"]["layers"], server["salt"])
        hello = server_hello(server["nonce"], agreed, committed, vector["model"], outline)
        yield self.frame("server hello", "server", SET_UP, hello)
        self.plan = Plan(Outline(outline), vector["mode"], vector["relus"])
        agreement = blake3(outline) + committed + self.plan.digest()
        yield self.frame("agreement", "client", SET_UP, agreement + bytes([vector["has second halves"]]))
        binding = bytes.fromhex(vector["channel binding"])
        material = PROTOCOL_VERSION.to_bytes(2, "little") + client["nonce"] + server["nonce"] + agreement
        material += terms(*agreed) + len(binding).to_bytes(8, "little") + binding
        self.session = derive_key(context("session id"), material)
        self.session_tag = tag(self.session)
        # What follows belongs to the served model, and is the same in all sessions with it.
        halves_id = derive_key(context("second halves"), PROTOCOL_VERSION.to_bytes(2, "little") + agreement)
        self.public_seed = public_seed(halves_id)
        place = scope(halves_id, bytes(16), 0, SERVER_TO_CLIENT)
        self.zeros_root = derive(server["salt"], "he root of second halves", place)

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
