"""Seeds for one purpose at one place, after docs/src/reference/protocol-bytes.md, "Randomness"."""

from .blake3 import derive_key, keyed_hash
from .chacha20 import Generator

CLIENT_TO_SERVER, SERVER_TO_CLIENT = 0, 1


def context(purpose):
    return "sordino 2026-11 " + purpose


def scope(session, inference, step, direction):
    return session + inference + step.to_bytes(4, "little") + bytes([direction])


def derive(root, purpose, place):
    return derive_key(context(purpose), root + place)


def generator(seed):
    return Generator(seed)


def ciphertext_generator(seed, number):
    return Generator(keyed_hash(seed, number.to_bytes(8, "little")))
