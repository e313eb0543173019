"""Arrays become the bytes of images, in channel, row, column order."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from ._native import ModelError

Shape = Tuple[int, int, int]

# The channels by which the layout of images is told where no network says it.
CHANNELS = (1, 3, 4)


def pixels(images: Any, shape: Shape) -> tuple[bytes, bool]:
    """The bytes of one image or of a batch for a network that takes `shape`, and whether it was a single one."""
    array = as_array(images)
    is_single = array.ndim == 3
    batch = array[np.newaxis] if is_single else array
    if batch.ndim != 4:
        raise ModelError(
            f"an array of {batch.ndim} dimensions came; expected one image (three) or a batch of them (four)"
        )
    if batch.shape[0] == 0:
        raise ModelError("no images came; expected at least one")
    channels, height, width = shape
    if batch.shape[1:] == (height, width, channels) and batch.shape[1:] != shape:
        batch = batch.transpose(0, 3, 1, 2)
    if batch.shape[1:] != shape:
        came = "x".join(map(str, batch.shape[1:]))
        raise ModelError(
            f"the image is {came}, the network takes {channels}x{height}x{width}; resize it, and give the channels "
            "first or last"
        )
    return np.ascontiguousarray(as_bytes(batch)).tobytes(), is_single


def shape_of(images: Any) -> Shape:
    """Channels, height and width of these images, by where a usual number of channels stands."""
    array = as_array(images)
    sides = array.shape[-3:]
    if array.ndim in (3, 4) and sides[0] in CHANNELS:
        return (int(sides[0]), int(sides[1]), int(sides[2]))
    if array.ndim in (3, 4) and sides[2] in CHANNELS:
        return (int(sides[2]), int(sides[0]), int(sides[1]))
    raise ModelError(
        f"images of shape {tuple(array.shape)} do not tell which axis has the channels; say it with "
        "input_shape=(channels, height, width)"
    )


def as_array(images: Any) -> np.ndarray[Any, Any]:
    """An array of whatever came: numpy's, a tensor of torch, an image of PIL, a list of these."""
    if isinstance(images, (list, tuple)):
        arrays = [as_array(image) for image in images]
        shapes = sorted({array.shape for array in arrays})
        if len(shapes) > 1:
            raise ModelError(f"a list of images of shapes {shapes[0]} and {shapes[1]} came; expected one shape for all")
        return np.stack(arrays) if arrays else np.empty((0, 0, 0, 0))
    if hasattr(images, "detach"):
        images = images.detach().cpu().float().numpy() if images.is_floating_point() else images.cpu().numpy()
    return np.asarray(images)


def as_bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Pixels from 0 to 255."""
    if array.dtype == np.uint8:
        return array
    if not np.issubdtype(array.dtype, np.number):
        raise ModelError(f"pixels of type {array.dtype} came; expected uint8 or floats from 0 to 1")
    low, high = float(array.min()), float(array.max())
    if np.issubdtype(array.dtype, np.floating):
        if not (low >= -1e-4 and high <= 1 + 1e-4):
            raise ModelError(
                f"pixels from {low:.4g} to {high:.4g} came; expected floats from 0 to 1 or uint8. Normalization belongs to "
                "the model: freeze takes mean and deviation"
            )
        bytes_of_pixels: np.ndarray[Any, Any] = np.rint(np.clip(array, 0, 1) * 255).astype(np.uint8)
        return bytes_of_pixels
    if np.issubdtype(array.dtype, np.integer) and low >= 0 and high <= 255:
        return array.astype(np.uint8)
    raise ModelError(f"pixels of type {array.dtype} from {low:.4g} to {high:.4g} came; expected uint8 or floats from 0 to 1")


def logits(integers: Any, fraction: int) -> np.ndarray[Any, Any]:
    """Integers with so many fraction bits, as numbers."""
    return (np.asarray(integers, dtype=np.float64) * 2.0**-fraction).astype(np.float32)
