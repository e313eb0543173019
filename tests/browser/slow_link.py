"""A slow link to a server on this machine: a proxy that passes so many bytes a second, with a delay."""

import socket
import threading
import time

PIECE = 16 << 10


class SlowLink:
    """Listens on loopback until the test ends; `address` is where."""

    def __init__(self, target, bytes_per_second, delay=0.0):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.rate = bytes_per_second
        self.delay = delay
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.is_open = True
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_open = False
        self.listener.close()

    def _accept(self):
        while self.is_open:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(self.target)
            for source, sink in [(near, far), (far, near)]:
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source, sink):
        try:
            free_at = time.monotonic()
            while piece := source.recv(PIECE):
                # A piece leaves when the ones before it are through, and arrives a delay later.
                free_at = max(free_at, time.monotonic()) + len(piece) / self.rate
                time.sleep(max(0.0, free_at + self.delay - time.monotonic()))
                sink.sendall(piece)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
