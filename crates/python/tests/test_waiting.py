"""The interpreter goes on during long calls, and Ctrl-C ends them."""

import os
import signal
import socket
import threading

import pytest

import sordino


def test_other_threads_run_during_a_call(model, test_set):
    ended = threading.Event()
    worker = threading.Thread(target=lambda: (model.verify(test_set[0][:3]), ended.set()))
    worker.start()
    steps = 0
    while not ended.wait(0.001):
        steps += 1
    worker.join()
    # With the lock held there would be no step between beginning and end.
    assert steps > 10


@pytest.fixture(autouse=True)
def ctrl_c_is_heard():
    """A shell that starts a program in the background lets it ignore Ctrl-C, and Python keeps that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_soon():
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_ctrl_c_ends_a_wait_for_a_silent_server():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        timer = interrupt_soon()
        with pytest.raises(KeyboardInterrupt) as caught:
            sordino.Client("{}:{}".format(*silent.getsockname()), "0" * 64)
        timer.join()
        # A call that waited to its end would have failed first, by the silence.
        assert caught.value.__context__ is None


def test_an_interrupted_client_says_so(model, test_set):
    with sordino.Server(model) as server:
        client = sordino.Client(server.address, server.fingerprint)
        timer = interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            client.prepare(60)
        timer.join()
        with pytest.raises(sordino.SessionError, match="interrupted"):
            client.classify(test_set[0][0])
        with sordino.Client(server.address, server.fingerprint) as other:
            assert other.classify(test_set[0][0]).logits is not None
