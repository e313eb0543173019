"""Arguments are held to what they must be, before anything begins."""

from __future__ import annotations

import json
import math
import operator
import os
from typing import Any, Sequence

from ._native import SordinoError

# More than machines have cores.
MAX_THREADS = 1024


def whole(name: str, value: Any, low: int, high: int, error: type[SordinoError]) -> int:
    """A whole number in a range."""
    try:
        number = operator.index(value)
    except TypeError:
        raise error(f"{name} is {value!r}; expected a whole number from {low} to {high}") from None
    if not low <= number <= high:
        raise error(f"{name} is {number}; expected {low} to {high}")
    return number


def seconds(name: str, value: Any, error: type[SordinoError]) -> float:
    """A time that passes."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    # A day is longer than anybody waits; NaN is not in any range.
    if not 0 <= number <= 86_400:
        raise error(f"{name} is {value!r}; expected seconds from 0 to 86400")
    return number


def numbers(name: str, values: Any, error: type[SordinoError]) -> list[float] | None:
    """A number for each channel, or none at all."""
    if values is None:
        return None
    try:
        return [float(number) for number in values]
    except (TypeError, ValueError, OverflowError):
        raise error(f"{name} is {values!r}; expected a number for each channel, such as [0.5, 0.5, 0.5]") from None


def text(name: str, value: Any, error: type[SordinoError]) -> str:
    """A string."""
    if not isinstance(value, str):
        raise error(f"{name} is {value!r}; expected a string")
    return value


def texts(name: str, values: Any, error: type[SordinoError]) -> list[str]:
    """Strings; one alone would be taken for its letters."""
    if isinstance(values, (str, bytes)):
        raise error(f"{name} is {values!r}; expected a list of strings")
    try:
        return [text(f"a name of {name}", value, error) for value in values]
    except TypeError:
        raise error(f"{name} is {values!r}; expected a list of strings") from None


def path(name: str, value: Any, error: type[SordinoError]) -> str | None:
    """Where a file or a folder is, or none."""
    try:
        found = None if value is None else os.fspath(value)
    except TypeError:
        found = b""
    if isinstance(found, bytes):
        raise error(f"{name} is {value!r}; expected the path of a file or folder")
    return found


def choice(name: str, value: Any, choices: Sequence[Any], error: type[SordinoError]) -> Any:
    """One of a few."""
    try:
        return next(known for known in choices if value == known)
    except (StopIteration, ValueError):  # Arrays do not say whether they are equal.
        expected = " or ".join(json.dumps(known) for known in choices)
        raise error(f"{name} is {value!r}; expected {expected}") from None
