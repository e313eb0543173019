#!/usr/bin/env python3
"""Checks the published test vectors with the slow implementation in `slow/`: python3 tests/vectors/check.py

Each message is made again from the parties' seeds and inputs and compared byte for byte, from the hellos to the answer.
Then single bytes of the vectors are changed, and the check must see each of them. Python's standard library is enough.
"""

import copy
import json
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from slow import aes128, blake3, chacha20, ristretto, words  # noqa: E402
from slow.session import Session  # noqa: E402

SESSIONS = ("session-logits.json", "session-chunks.json", "session-class.json", "session-signs.json")


class Differs(Exception):
    """A vector is not what the slow implementation makes."""


def same(what, made, published):
    if made == published:
        return
    if not isinstance(made, bytes) or len(made) != len(published):
        sizes = f"{len(made)} and {len(published)} long" if hasattr(made, "__len__") else f"{made}, {published}"
        raise Differs(f"{what}: made and published differ ({sizes})")
    place = next(place for place, (one, other) in enumerate(zip(made, published)) if one != other)
    raise Differs(f"{what}: byte {place} of {len(made)} is {made[place]:#04x} here, {published[place]:#04x} there")


def check_primitives():
    """The building blocks against the examples of their own documents."""
    number = lambda text: int.from_bytes(bytes.fromhex(text), "little")
    block = aes128.encrypt(aes128.expand(number("000102030405060708090a0b0c0d0e0f")),
                           number("00112233445566778899aabbccddeeff"))
    same("AES-128 (FIPS 197, C.1)", block, number("69c4e0d86a7b0430d8cdb78070b4c55a"))
    stream = bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")
    same("ChaCha20 (RFC 8439, A.1)", chacha20.Generator(bytes(32)).bytes(32), stream)
    empty = bytes.fromhex("af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262")
    same("BLAKE3 of nothing", blake3.blake3(b""), empty)
    multiples = (
        "0000000000000000000000000000000000000000000000000000000000000000",
        "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76",
        "6a493210f7499cd17fecb510ae0cea23a110e8d5b901f8acadd3095c73a3b919",
    )
    for scalar, encoded in enumerate(multiples):
        point = ristretto.multiply(scalar, ristretto.BASE)
        same(f"ristretto255 (RFC 9496, A.1), {scalar}", ristretto.encode(point), bytes.fromhex(encoded))


def check_words(vector):
    same("protocol version", words.PROTOCOL_VERSION, vector["protocol version"])
    for number, row in enumerate(vector["words"]):
        made = words.message(row["what"], row["fields"])
        same(f"word {number} ({row['what']})", made, bytes.fromhex(row["bytes"]))


def check_session(vector, made=None):
    """Compares every frame; gives the frames that were made, for further comparisons with the same inputs."""
    if made is None:
        session = Session(vector)
        made = list(session.frames()), session.answers
    frames, answers = made
    same("number of frames", len(frames), len(vector["frames"]))
    for (name, sender, header, body), published in zip(frames, vector["frames"]):
        same("name of a frame", name, published["name"])
        same(f"sender of {name}", sender, published["from"])
        same(f"header of {name}", header, bytes.fromhex(published["header"]))
        same(f"body of {name}", body, bytes.fromhex(published["body"]))
    same("answers", answers, vector["answers"])
    return made


def is_caught(check, *arguments):
    try:
        check(*arguments)
    except Differs:
        return True
    return False


def flipped(text, place):
    data = bytearray.fromhex(text)
    data[place] ^= 1 << place % 8
    return data.hex()


def check_that_changes_are_seen(all_words, sessions):
    """One byte of every row and of every frame, first, last and in between; and an input of each session."""
    changes = missed = 0
    for number, row in enumerate(all_words["words"]):
        changed = {**all_words, "words": [{**row, "bytes": flipped(row["bytes"], len(row["bytes"]) // 2 - 1)}]}
        changes, missed = changes + 1, missed + (not is_caught(check_words, changed))
    for vector, made in sessions:
        for number, frame in enumerate(vector["frames"]):
            for field in ("header", "body"):
                size = len(frame[field]) // 2
                for place in {0, size // 3, size - 1} if size else ():
                    changed = copy.copy(vector)
                    changed["frames"] = list(vector["frames"])
                    changed["frames"][number] = {**frame, field: flipped(frame[field], place)}
                    changes, missed = changes + 1, missed + (not is_caught(check_session, changed, made))
        changed = {**vector, "answers": [[value + 1 for value in answer] for answer in vector["answers"]]}
        changes, missed = changes + 1, missed + (not is_caught(check_session, changed, made))
    # With another seed every later message is another one.
    vector, _ = sessions[-1]
    for party in ("client", "server"):
        root = flipped(vector[party]["root of inference 1"], 7)
        changed = {**vector, party: {**vector[party], "root of inference 1": root}}
        changes, missed = changes + 1, missed + (not is_caught(check_session, changed))
    if missed:
        raise Differs(f"{missed} of {changes} changed bytes were not seen")
    return changes


def main():
    start = time.monotonic()
    load = lambda name: json.loads((HERE / name).read_text())
    try:
        check_primitives()
        all_words = load("words.json")
        check_words(all_words)
        print(f"words.json: {len(all_words['words'])} messages as published")
        sessions = []
        for name in SESSIONS:
            vector = load(name)
            sessions.append((vector, check_session(vector)))
            size = sum(len(frame["body"]) // 2 for frame in vector["frames"])
            print(f"{name}: {len(vector['frames'])} frames ({size} bytes) as published, answers {vector['answers']}")
        changes = check_that_changes_are_seen(all_words, sessions)
        print(f"{changes} changed bytes, all seen; {time.monotonic() - start:.0f} s")
    except Differs as difference:
        print(f"NOT as published: {difference}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
