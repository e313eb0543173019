"""Private CNN inference.

A client learns what a server's network says about its image. The server learns nothing about the image, the client nothing
about the weights.

>>> model = sordino.freeze(network, calibration_images)
>>> with sordino.Server(model) as server, sordino.Client(server.address, server.fingerprint) as client:
...     print(client.classify(image))

Images are arrays: ``uint8`` from 0 to 255 or floats from 0 to 1, as channels, rows, columns or as rows, columns, channels,
one of them or a batch. Long calls leave the interpreter to other threads, and Ctrl-C ends them.
"""

from ._client import Answer, Client
from ._freeze import SordinoWarning, freeze
from ._model import Model, Verification
from ._native import ModelError, SessionError, SordinoError
from ._server import Server

__all__ = [
    "Answer",
    "Client",
    "Model",
    "ModelError",
    "Server",
    "SessionError",
    "SordinoError",
    "SordinoWarning",
    "Verification",
    "freeze",
]
