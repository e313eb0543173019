"""Server and client of one process, and what keeps them apart."""

import socket
import time

import numpy as np
import pytest

import sordino
from conftest import CLASSES


@pytest.fixture(scope="module")
def server(model):
    with sordino.Server(model) as server:
        yield server


def eventually(holds):
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, "it did not come true within 20 s"
        time.sleep(0.01)


def test_images_are_classified_in_private(server, model, test_set):
    images, _ = test_set
    with sordino.Client(server.address, server.fingerprint) as client:
        assert (client.model, client.input_shape, client.class_names) == ("patterns", (3, 32, 32), CLASSES)
        with pytest.raises(sordino.SessionError, match="count is -1; expected 0 to"):
            client.prepare(-1)
        with pytest.raises(sordino.SessionError, match="count is 4294967296; expected 0 to"):
            client.prepare(2**32)
        client.prepare(2)
        assert client.prepared == 2
        before = server.classified
        answer = client.classify(images[0])
        assert client.prepared == 1
        # The server counts once its last message is on its way, which the client need not wait for.
        eventually(lambda: server.classified == before + 1)
        plain = model.plain(images[0])
        assert answer.index == int(np.argmax(plain)) and answer.name == CLASSES[answer.index]
        assert np.abs(answer.logits - plain).max() < 0.05 * np.ptp(plain) + 0.05
        answers = client.classify(images[1:4])
        assert [each.index for each in answers] == list(np.argmax(model.plain(images[1:4]), axis=1))
    with pytest.raises(sordino.SessionError, match="this client is closed"):
        client.classify(images[0])


def test_a_server_may_reveal_the_class_alone(model, test_set):
    with sordino.Server(model, reveal="class") as server, sordino.Client(server.address, server.fingerprint) as client:
        answer = client.classify(test_set[0][7])
        assert answer.logits is None and answer.index == int(np.argmax(model.plain(test_set[0][7])))


def test_several_models_by_name(model, test_set):
    with sordino.Server({"first": model, "second": model}) as server:
        with sordino.Client(server.address, server.fingerprint, model="second") as client:
            assert client.model == "second"
            client.classify(test_set[0][0])
        with pytest.raises(sordino.SessionError, match="third"):
            sordino.Client(server.address, server.fingerprint, model="third")


def test_a_server_keeps_its_fingerprint_in_a_folder(model, tmp_path):
    fingerprints = set()
    for _ in range(2):
        with sordino.Server(model, state=tmp_path) as server:
            fingerprints.add(server.fingerprint)
    assert len(fingerprints) == 1


def test_start_and_stop(model):
    server = sordino.Server(model)
    with pytest.raises(sordino.SessionError, match="start\\(\\) it first"):
        server.address
    address = server.start().address
    assert server.start().address == address, "a second start changes nothing"
    fingerprint = server.fingerprint
    assert server.stop() and server.stop()
    with pytest.raises(sordino.SessionError, match="nothing listens at"):
        sordino.Client(address, fingerprint)


def test_another_server_is_not_believed(server):
    with pytest.raises(sordino.SessionError, match="fingerprint"):
        sordino.Client(server.address, "0" * 64)
    with pytest.raises(sordino.SessionError, match="fingerprint"):
        sordino.Client(server.address, "no digits")
    with sordino.Client(server.address, ":".join(server.fingerprint[at : at + 2] for at in range(0, 64, 2))):
        pass


def test_a_server_that_cannot_start(model):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        host, port = taken.getsockname()
        with pytest.raises(sordino.SessionError, match="cannot listen on"):
            sordino.Server(model, listen=f"{host}:{port}").start()
    with pytest.raises(sordino.SessionError, match='expected "logits" or "class"'):
        sordino.Server(model, reveal="everything").start()


def test_images_of_another_size_leave_the_session_alone(server, test_set):
    with sordino.Client(server.address, server.fingerprint) as client:
        with pytest.raises(sordino.ModelError, match="the network takes 3x32x32"):
            client.classify(np.zeros((3, 8, 8), np.uint8))
        assert client.classify(test_set[0][0]).name in CLASSES


def test_what_every_client_gets_once_is_kept_in_a_folder(server, test_set, tmp_path):
    folder = tmp_path / "cache"
    for _ in range(2):
        with sordino.Client(server.address, server.fingerprint, cache=folder) as client:
            assert client.classify(test_set[0][0]).name in CLASSES
        assert [path.suffix for path in folder.iterdir()] == [".halves"]


def test_too_little_memory_is_refused_before_anything_runs(server):
    with pytest.raises(sordino.SessionError, match="bytes"):
        sordino.Client(server.address, server.fingerprint, max_memory=1000)
