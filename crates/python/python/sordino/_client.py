"""A client of a server."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from . import _images, _native, _values

# What 64 and 32 bits hold.
MAX_BYTES = 2**64 - 1
MAX_PREPARED = 2**32 - 1


@dataclass(frozen=True)
class Answer:
    """What the client learned about one image."""

    index: int
    """The class."""
    name: str | None
    """What it is called, where the model names its classes."""
    logits: np.ndarray[Any, Any] | None
    """All logits, where the server reveals them."""


class Client:
    """A session with a server. What is prepared serves this session alone."""

    def __init__(
        self,
        server: str,
        fingerprint: str,
        *,
        model: str = "",
        threads: int = 1,
        max_memory: int | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        """Connects to ``HOST:PORT``, or to ``HOST`` at the usual port.

        `fingerprint` is what the server printed when it started; no other server is believed. `model` is its name where the
        server has several. `max_memory` is the most bytes that one inference may take here. `cache` is a folder for that part
        of the answers which a model sends every client once; without it, each session fetches that part again.
        """
        refused = _native.SessionError
        most = None if max_memory is None else _values.whole("max_memory", max_memory, 1, MAX_BYTES, refused)
        options = {
            "model": _values.text("model", model, refused),
            "threads": _values.whole("threads", threads, 1, _values.MAX_THREADS, refused),
            "max_memory": most,
            "cache": _values.path("cache", cache, refused),
        }
        server = _values.text("server", server, refused)
        self._native = _native.Client.connect(server, _values.text("fingerprint", fingerprint, refused), options)

    @property
    def model(self) -> str:
        """The name of the model."""
        return self._native.model

    @property
    def input_shape(self) -> _images.Shape:
        """Channels, height and width of its images."""
        return self._native.input_shape

    @property
    def class_names(self) -> list[str]:
        """What its classes are called; empty where nobody named them."""
        return self._native.class_names

    @property
    def prepared(self) -> int:
        """How many images will find their offline work done."""
        return self._native.prepared()

    def prepare(self, count: int = 1) -> None:
        """Does the offline work for so many images, before there are any."""
        self._native.prepare(_values.whole("count", count, 0, MAX_PREPARED, _native.SessionError))

    def classify(self, images: Any) -> Any:
        """Asks about one image, or about a batch that shares every round trip: an `Answer`, or a list of them. What is not
        prepared is prepared first."""
        pixels, is_single = _images.pixels(images, self.input_shape)
        answers = [self._answer(index, integers) for index, integers in self._native.classify(pixels)]
        return answers[0] if is_single else answers

    def close(self) -> None:
        """Says goodbye; what was prepared and not used is lost."""
        self._native.close()

    def _answer(self, index: int, integers: list[int] | None) -> Answer:
        names = self.class_names
        logits = None if integers is None else _images.logits(integers, self._native.logit_fraction)
        return Answer(index, names[index] if names else None, logits)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
