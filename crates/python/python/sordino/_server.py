"""A server for notebooks and tests."""

from __future__ import annotations

from types import TracebackType
from typing import Mapping

from . import _native, _values
from ._model import Model, Path


class Server:
    """Serves models from this process, in threads of its own. `start` and `stop` it, or use it in a ``with``.

    It keeps no prepared inferences beyond their connection and puts no limits on single clients: strangers are served by
    ``sordino serve``, with the same models.
    """

    def __init__(
        self,
        models: Model | Mapping[str, Model],
        *,
        listen: str = "127.0.0.1:0",
        reveal: str = "logits",
        threads: int = 1,
        state: Path | None = None,
    ) -> None:
        """`models` is one model, or several by the names that clients ask for.

        Port 0 is any free one. Clients learn the "logits", or the "class" alone. `state` is a folder that keeps the
        certificate, so that the fingerprint stays the same; without it every start has a new one.
        """
        refused = _native.SessionError
        self._models = _by_name(models)
        self._options = {
            "listen": _values.text("listen", listen, refused),
            "reveal": _values.choice("reveal", reveal, ["logits", "class"], refused),
            "threads": _values.whole("threads", threads, 1, _values.MAX_THREADS, refused),
            "state": _values.path("state", state, refused),
        }
        self._native: _native.Server | None = None

    def start(self) -> Server:
        """Answers clients from here on."""
        if self._native is None:
            models = {name: model._native for name, model in self._models.items()}
            self._native = _native.Server.start(models, self._options)
        return self

    def stop(self, grace: float = 10.0) -> bool:
        """Lets running inferences finish for so many seconds. True where all of them did."""
        grace = _values.seconds("grace", grace, _native.SessionError)
        running, self._native = self._native, None
        return running is None or running.stop(grace)

    @property
    def address(self) -> str:
        """Host and port, as `Client` takes them."""
        return self._running().address

    @property
    def fingerprint(self) -> str:
        """What clients know the server by: 64 digits."""
        return self._running().fingerprint

    @property
    def classified(self) -> int:
        """How many images were answered since the start."""
        return self._running().classified

    def _running(self) -> _native.Server:
        if self._native is None:
            raise _native.SessionError("the server does not run; start() it first")
        return self._native

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _by_name(models: Model | Mapping[str, Model]) -> dict[str, Model]:
    served = dict(models) if isinstance(models, Mapping) else {getattr(models, "name", ""): models}
    if not served:
        raise _native.SessionError("no models came; expected one, or several by name")
    for name, model in served.items():
        if not isinstance(model, Model):
            raise _native.SessionError(
                f"an object of type {type(model).__name__} cannot be served; expected what freeze or Model.load returns"
            )
        _values.text("the name of a model", name, _native.SessionError)
    return served
