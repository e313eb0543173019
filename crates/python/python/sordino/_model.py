"""Frozen models."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from . import _images, _native

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Verification:
    """What came of private inference beside inference in the clear. It is true where every image was equal."""

    equal: bool
    """Whether all private logits are those of the integer reference with the protocol's rounding, bit for bit."""
    images: int
    """How many were compared."""
    class_agreements: int
    """How many of them have the class of plain rounding."""
    private: np.ndarray[Any, Any]
    """The logits of private inference, one row for each image."""
    plain: np.ndarray[Any, Any]
    """Those of the integer reference with plain rounding."""

    def __bool__(self) -> bool:
        return self.equal


class Model:
    """A network that became integers: what a server loads. `freeze` makes one, `Model.load` reads one."""

    def __init__(self, native: _native.Model, report: dict[str, Any] | None = None) -> None:
        self._native = native
        self.report = report
        """What freezing did: rings, round trips, overflows. None for a model that was loaded."""

    @staticmethod
    def load(path: Path) -> Model:
        """Reads a model file, which `save` or `sordino freeze` wrote."""
        return Model(_native.Model.load(os.fspath(path)))

    def save(self, path: Path) -> None:
        """Writes a file that `sordino serve` takes; its name should end in ``.sordino``."""
        self._native.save(os.fspath(path))

    @property
    def name(self) -> str:
        """What the network is called."""
        return self._native.name

    @property
    def input_shape(self) -> _images.Shape:
        """Channels, height and width of its images."""
        return self._native.input_shape

    @property
    def classes(self) -> int:
        """How many classes it tells apart."""
        return self._native.classes

    @property
    def class_names(self) -> list[str]:
        """What they are called; empty where nobody named them."""
        return self._native.class_names

    def inspect(self) -> dict[str, Any]:
        """Figures of the model, and under ``private`` those of one private inference: bytes, rounds, memory. Nothing runs."""
        figures: dict[str, Any] = json.loads(self._native.inspect())
        return figures

    def plain(self, images: Any) -> np.ndarray[Any, Any]:
        """The logits in the clear, with the integers that private inference computes with: one row for each image, or one
        row alone for a single image."""
        pixels, is_single = _images.pixels(images, self.input_shape)
        logits = _images.logits(self._native.plain(pixels), self._native.logit_fraction)
        return logits[0] if is_single else logits

    def verify(self, images: Any) -> Verification:
        """Runs client and server in this process and compares: private logits must equal the integer reference bit for
        bit."""
        pixels, _ = _images.pixels(images, self.input_shape)
        found = self._native.verify(pixels)
        private, plain = ([each[place] for each in found] for place in (0, 2))
        agreements = sum(int(np.argmax(one) == np.argmax(other)) for one, other in zip(private, plain))
        fraction = self._native.logit_fraction
        return Verification(
            equal=all(private == expected for private, expected, _ in found),
            images=len(found),
            class_agreements=agreements,
            private=_images.logits(private, fraction),
            plain=_images.logits(plain, fraction),
        )

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.input_shape))
        return f"<sordino.Model {self.name}, {shape} to {self.classes} classes>"
