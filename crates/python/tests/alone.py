"""The package without torch: `python alone.py MODEL` serves a model that ships and asks about a random image."""

import importlib.util
import sys

import numpy as np

import sordino

assert importlib.util.find_spec("torch") is None, "this is to be tried without torch"
model = sordino.Model.load(sys.argv[1])
image = np.random.default_rng(1).integers(0, 256, model.input_shape, dtype=np.uint8)
with sordino.Server(model) as server, sordino.Client(server.address, server.fingerprint) as client:
    answer = client.classify(image)
assert answer.index == int(np.argmax(model.plain(image))), "the class of the reference"
print(f"{model.name}: {answer.name}, in private as in the clear")
