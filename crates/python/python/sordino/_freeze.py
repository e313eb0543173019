"""From a torch module or an ONNX file to a model."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import pathlib
import tempfile
import warnings
from typing import Any, Sequence

from . import _images, _native, _values
from ._model import Model

# Understood by every exporter since PyTorch 1.12.
OPSET = 17

# What a feature map may have.
MAX_CHANNELS, MAX_SIDE = 2**16, 2**12

UNCALIBRATED = (
    "scales were calibrated on random images; trained weights want images of the kind they were trained on: "
    "calibration_images takes them"
)


class SordinoWarning(UserWarning):
    """What was taken for granted, and what was left out."""


def freeze(
    network: Any,
    calibration_images: Any = None,
    *,
    mean: Sequence[float] | None = None,
    deviation: Sequence[float] | None = None,
    class_names: Sequence[str] | None = None,
    input_shape: Sequence[int] | None = None,
    name: str | None = None,
    weight_bits: int = 8,
    activation_bits: int = 10,
    outline: str = "fine",
    mask: str | os.PathLike[str] | None = None,
) -> Model:
    """Turns a network into the integers that are served.

    `network` is a ``torch.nn.Module`` or the path of an ONNX file. `calibration_images` are some images of the kind that it
    was trained on; the scales are fixed on them. Without them random ones serve, with a warning.

    `mean` and `deviation` are what training did to pixels from 0 to 1: ``(pixel - mean) / deviation``. Without them those
    of CIFAR-10 are taken, with a warning; a network that normalizes pixels itself needs none.

    `input_shape` is channels, height and width, for a module without calibration images or a file that leaves them open.
    `weight_bits` is 8 or 12, `activation_bits` 2 to 24. A "coarse" `outline` tells clients less about the weights. `mask`
    is a file that says which ReLUs stay.

    Raises `ModelError` for what cannot be run in private, with the operation's name and what to use instead.
    """
    refused = _native.ModelError
    mean, deviation = _values.numbers("mean", mean, refused), _values.numbers("deviation", deviation, refused)
    options = {
        "mean": mean,
        "deviation": deviation,
        "class_names": [] if class_names is None else _values.texts("class_names", class_names, refused),
        "weight_bits": _values.choice("weight_bits", weight_bits, [8, 12], refused),
        "activation_bits": _values.whole("activation_bits", activation_bits, 2, 24, refused),
        "outline": _values.choice("outline", outline, ["fine", "coarse"], refused),
        "mask": _values.path("mask", mask, refused),
    }
    shape = _shape(calibration_images, input_shape)
    imported = _read(network, shape, None if name is None else _values.text("name", name, refused))
    pixels = None
    if calibration_images is not None:
        pixels, _ = _images.pixels(calibration_images, imported.input_shape)
    for note in imported.notes(mean, deviation):
        warnings.warn(note, SordinoWarning, stacklevel=2)
    if pixels is None:
        warnings.warn(UNCALIBRATED, SordinoWarning, stacklevel=2)
    native, report = imported.freeze(pixels, options)
    return Model(native, json.loads(report))


def _shape(images: Any, said: Sequence[int] | None) -> _images.Shape | None:
    if said is not None:
        try:
            channels, height, width = said
        except (TypeError, ValueError):
            raise _native.ModelError(f"input_shape {said!r} cannot be used; expected channels, height and width") from None
        sides = (channels, MAX_CHANNELS), (height, MAX_SIDE), (width, MAX_SIDE)
        found = [_values.whole("a number of input_shape", side, 1, most, _native.ModelError) for side, most in sides]
        return (found[0], found[1], found[2])
    return None if images is None else _images.shape_of(images)


def _read(network: Any, shape: _images.Shape | None, name: str | None) -> _native.Imported:
    if isinstance(network, (str, os.PathLike)):
        path = os.fspath(network)
        # Where the file says another size itself, the images are held against that.
        side = shape[1] if shape is not None and shape[1] == shape[2] else None
        return _native.Imported.read(path, name, side)
    if not (hasattr(network, "state_dict") and callable(network)):
        raise _native.ModelError(
            f"an object of type {type(network).__name__} cannot be frozen; expected a torch.nn.Module or the path of an "
            "ONNX file"
        )
    if shape is None:
        raise _native.ModelError(
            "a module does not say how large its images are; give calibration_images, or input_shape=(channels, height, "
            "width)"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "network.onnx"
        _export(network, shape, path)
        try:
            return _native.Imported.read(str(path), name or type(network).__name__, None)
        except _native.ModelError as error:
            # Nobody knows the file, which is gone already.
            raise _native.ModelError(str(error).replace(str(path), f"the module {type(network).__name__}")) from None


def _export(module: Any, shape: _images.Shape, path: pathlib.Path) -> None:
    """Writes a copy of the module, in single precision and as it behaves after training."""
    if importlib.util.find_spec("onnx") is None:
        raise _native.ModelError("PyTorch writes ONNX files with the package onnx, which is not installed; pip install onnx")
    import torch

    ready = copy.deepcopy(module).cpu().float().eval()
    with torch.no_grad(), warnings.catch_warnings():
        # The exporter speaks of its own future.
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(ready, (torch.zeros(1, *shape),), str(path), opset_version=OPSET, dynamo=False)
        except Exception as error:  # The module's own code runs here, and raises what it likes.
            size = "x".join(map(str, shape))
            raise _native.ModelError(f"PyTorch cannot export the module for an image of {size}: {error}") from error
