"""What cannot be done is an exception that says what came and what to do."""

import numpy as np
import pytest
import torch

import sordino
from conftest import CLASSES, DEVIATION, MEAN, block, draw


def freeze(network, images=None, **options):
    images = draw(2, seed=6)[0] if images is None else images
    return sordino.freeze(network, images, mean=MEAN, deviation=DEVIATION, **options)


def refused(network, *words, **options):
    with pytest.raises(sordino.ModelError) as caught:
        freeze(network, **options)
    for word in words:
        assert word in str(caught.value), str(caught.value)
    return str(caught.value)


def head(*layers):
    return torch.nn.Sequential(block(3, 4, 2), *layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(4, 3))


def test_unsupported_layers_are_named():
    message = refused(head(torch.nn.GELU()), "the module Sequential is not usable", "Erf", "ReLU")
    assert "network.onnx" not in message, message
    refused(head(torch.nn.SiLU()), "Sigmoid")
    refused(head(torch.nn.Upsample(scale_factor=2)), "Resize")


def test_what_is_no_network():
    refused(3, "an object of type int cannot be frozen")
    refused("/nowhere/network.onnx", "/nowhere/network.onnx is not usable")


def test_a_module_that_takes_other_images():
    refused(head(), "PyTorch cannot export the module for an image of 1x32x32", images=np.zeros((2, 1, 32, 32), np.uint8))


def test_a_module_that_takes_something_else():
    class TwoInputs(torch.nn.Module):
        def forward(self, image, other):
            return image + other

    refused(TwoInputs(), "PyTorch cannot export the module", "other")


def test_a_file_that_is_none(tmp_path):
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"hello")
    refused(path, "broken.onnx is not usable")
    (tmp_path / "broken.sordino").write_bytes(b"hello")
    with pytest.raises(sordino.ModelError, match="broken.sordino is not usable"):
        sordino.Model.load(tmp_path / "broken.sordino")


def test_options_that_do_not_fit(trained):
    refused(trained, "weight_bits is 9; expected 8 or 12", weight_bits=9)
    refused(trained, '"fine" or "coarse"', outline="rough")
    refused(trained, "class names; expected one for each of 4", class_names=CLASSES[:3])
    message = refused(trained, "the name of class 1 has 0 bytes", class_names=["a", "", "c", "d"])
    assert message.count("has 0 bytes") == 1, message
    refused(trained, "cannot be used; expected channels, height and width", input_shape=(32, 32))
    with pytest.raises(sordino.ModelError, match="divide each number by 255"):
        sordino.freeze(trained, draw(2, seed=6)[0], mean=[123, 116, 103], deviation=DEVIATION)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        *(("weight_bits", value, "expected 8 or 12") for value in (-1, 2**70, 8.5, "8", None, True, np.array([8, 12]))),
        *(("activation_bits", value, "2 to 24") for value in (-1, 0, 25, 2**70, 10.0, "10", None)),
        *(("outline", value, '"fine" or "coarse"') for value in (None, 1, b"fine")),
        *(("class_names", value, "expected a list of strings") for value in ("cats", 4)),
        ("class_names", [1, 2, 3, 4], "expected a string"),
        ("name", 5, "expected a string"),
        *(("mask", value, "expected the path of a file") for value in (5, b"mask")),
        *(("input_shape", value, "expected channels, height and width") for value in (5, "", (32, 32), (1, 3, 32, 32))),
        *(("input_shape", value, "1 to 4096") for value in ((3, -1, 32), (3, 32, 2**70), (3, 32.5, 32), (3, "a", 32))),
    ],
)
def test_options_out_of_range(name, value, words):
    # Refused before the network is looked at.
    refused("/nowhere/network.onnx", words, **{name: value})


@pytest.mark.parametrize("value", [0.5, "abc", [None] * 3, ["a", "b", "c"], [10**400] * 3])
def test_normalization_that_is_no_list_of_numbers(value):
    for name in ("mean", "deviation"):
        with pytest.raises(sordino.ModelError, match=f"{name} is .*; expected a number for each channel"):
            sordino.freeze("/nowhere/network.onnx", **{name: value})


def test_normalization_that_does_not_fit(trained):
    for name, value in [("mean", [np.nan] * 3), ("deviation", [0.0] * 3), ("deviation", [-1.0] * 3), ("mean", []), ("mean", [0.5])]:
        given = {"mean": MEAN, "deviation": DEVIATION, name: value}
        with pytest.raises(sordino.ModelError):
            sordino.freeze(trained, draw(2, seed=6)[0], **given)


FINGERPRINT = "0" * 64


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        *(("threads", value, "1 to 1024") for value in (-1, 0, 10**6, 2**70, 1.5, "1", None)),
        *(("max_memory", value, "1 to 18446744073709551615") for value in (-1, 0, 2**64, 1e9, "1")),
        *(("model", value, "expected a string") for value in (None, 1)),
        *(("cache", value, "expected the path") for value in (1, b"folder")),
        *(("server", value, "expected a string") for value in (None, 7143, ("127.0.0.1", 7143))),
        *(("fingerprint", value, "expected a string") for value in (None, 1, bytes(32))),
        ("fingerprint", "abc", "64"),
    ],
)
def test_what_no_client_takes(name, value, words):
    given = {"server": "127.0.0.1:1", "fingerprint": FINGERPRINT, name: value}
    with pytest.raises(sordino.SessionError, match=words):
        sordino.Client(**given)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        *(("threads", value, "1 to 1024") for value in (-1, 0, 10**6, 2**70, 1.5, "1", None)),
        *(("reveal", value, '"logits" or "class"') for value in ("all", None, 1)),
        *(("listen", value, "expected a string") for value in (None, 7143)),
        *(("listen", value, "cannot listen on") for value in ("", "nonsense", "127.0.0.1:99999")),
        *(("state", value, "expected the path") for value in (1, b"folder")),
        *(("models", value, "cannot be served") for value in (None, 3, "model.sordino", {"a": 3})),
        ("models", {}, "no models came"),
    ],
)
def test_what_no_server_takes(model, name, value, words):
    given = {"models": model, name: value}
    with pytest.raises(sordino.SessionError, match=words):
        sordino.Server(**given).start()


def test_a_name_that_no_model_can_have(model):
    for name in (1, "a" * 1000):
        with pytest.raises(sordino.SessionError):
            sordino.Server({name: model}).start()


@pytest.mark.parametrize("grace", [-1, float("nan"), float("inf"), "soon", None])
def test_a_server_that_is_not_stopped_goes_on(model, grace):
    with sordino.Server(model) as server:
        with pytest.raises(sordino.SessionError, match="grace is .*; expected seconds"):
            server.stop(grace)
        assert server.address


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (np.zeros((3, 16, 16), np.uint8), "the image is 3x16x16, the network takes 3x32x32"),
        (np.zeros((2, 2, 3, 32, 32), np.uint8), "an array of 5 dimensions came"),
        (np.zeros((0, 3, 32, 32), np.uint8), "no images came"),
        ([np.zeros((3, 32, 32)), np.zeros((3, 32, 31))], "expected one shape for all"),
        (np.full((3, 32, 32), -1.7), "Normalization belongs to the model"),
        (np.full((3, 32, 32), np.nan), "expected floats from 0 to 1"),
        (np.full((3, 32, 32), 300), "from 300 to 300 came"),
        (np.full((3, 32, 32), "x"), "expected uint8"),
    ],
)
def test_images_that_do_not_fit(model, images, words):
    with pytest.raises(sordino.ModelError, match=words):
        model.plain(images)


def test_images_that_do_not_say_their_layout(trained):
    refused(trained, "do not tell which axis has the channels", images=np.zeros((2, 32, 32, 32), np.uint8))


def test_exceptions_have_one_root():
    assert issubclass(sordino.ModelError, sordino.SordinoError) and issubclass(sordino.SessionError, sordino.SordinoError)
    assert sordino.ModelError.__module__ == "sordino"
