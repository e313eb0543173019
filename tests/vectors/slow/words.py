"""Frames, hellos, requests, replies and refusals (docs/src/reference/protocol.md)."""

MAGIC = b"SORDINO\0"
PROTOCOL_VERSION = 5
MODES = {"logits": 0, "class": 1, "any": 255}
SET_UP, HOMOMORPHIC, TRANSFER, GARBLED, TRUNCATION, VALUES, SERVICE, REFUSAL, GATES = range(1, 10)
RELUS = {"by shares": 0, "nearest": 1, "any": 255}


def header(session_tag, inference_tag, step, sender, kind, length):
    direction = {"client": 1, "server": 2}[sender]
    return (session_tag + inference_tag + step.to_bytes(4, "little") + bytes([direction, kind])
            + PROTOCOL_VERSION.to_bytes(2, "little") + length.to_bytes(8, "little"))


def _name(text):
    assert len(text.encode()) <= 64
    return text.encode().ljust(64, b"\0")


def terms(mode, relus, depth):
    """What the client learns, how ReLUs round, how deep trees of transfers are: wished for, or agreed."""
    return bytes([MODES[mode], RELUS[relus], 255 if depth is None else depth])


def client_hello(nonce, wishes, model):
    return nonce + terms(*wishes) + _name(model)


def server_hello(nonce, agreed, commitment, model, outline):
    return nonce + terms(*agreed) + commitment + _name(model) + outline


def request(fields):
    count = fields.get("count", 0).to_bytes(4, "little")
    if fields["request"] == "prepare":
        token_hash = fields["token hash"]
        return b"\1" + count + (b"\0" + bytes(32) if token_hash is None else b"\1" + bytes.fromhex(token_hash))
    if fields["request"] == "classify":
        return b"\2" + count
    if fields["request"] == "classify stored":
        return b"\3" + bytes.fromhex(fields["token"] + "".join(fields["ids"]))
    if fields["request"] == "probe":
        return b"\4" + fields["down"].to_bytes(4, "little") + bytes(fields["up"])
    if fields["request"] in ("list", "discard"):
        return {"list": b"\7", "discard": b"\10"}[fields["request"]] + bytes.fromhex(fields["token"])
    return {"bye": b"\5", "room": b"\6"}[fields["request"]]


def reply(fields):
    if fields["reply"] == "accepted":
        return b"\1" + bytes.fromhex("".join(fields["ids"]))
    if fields["reply"] == "waiting":
        return b"\2" + fields["ahead"].to_bytes(4, "little")
    if fields["reply"] == "stored":
        return b"\3" + fields["expires"].to_bytes(8, "little")
    if fields["reply"] == "probed":
        return b"\4" + bytes(fields["bytes"])
    if fields["reply"] == "room":
        numbers = [fields[name] for name in ("count", "stored", "bytes", "lifetime")]
        return b"\5" + b"".join(number.to_bytes(8, "little") for number in numbers)
    if fields["reply"] == "listed":
        return b"\6" + bytes.fromhex("".join(fields["ids"]))
    assert fields["reply"] == "discarded"
    return b"\7" + fields["count"].to_bytes(8, "little")


def refusal(fields):
    about = b"" if fields["about"] is None else b"\0" + bytes.fromhex(fields["about"])
    return fields["code"].to_bytes(2, "little") + fields["sentence"].encode() + about


def message(what, fields):
    """The bytes of one row of words.json."""
    data = lambda name: bytes.fromhex(fields[name])
    if what == "header":
        return header(data("session tag"), data("inference tag"), fields["step"], fields["from"], fields["kind"],
                      fields["length"])
    if what == "client hello":
        return client_hello(data("nonce"), (fields["wish"], fields["relus"], fields["depth"]), fields["model"])
    if what == "server hello":
        agreed = fields["mode"], fields["relus"], fields["depth"]
        return server_hello(data("nonce"), agreed, data("commitment"), fields["model"], data("outline"))
    if what == "agreement":
        return data("outline") + data("commitment") + data("plan")
    return {"request": request, "reply": reply, "refusal": refusal}[what](fields)
