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
    refused(trained, "choose 8 or 12", weight_bits=9)
    refused(trained, '"fine" or "coarse"', outline="rough")
    refused(trained, "class names; expected one for each of 4", class_names=CLASSES[:3])
    message = refused(trained, "the name of class 1 has 0 bytes", class_names=["a", "", "c", "d"])
    assert message.count("has 0 bytes") == 1, message
    refused(trained, "cannot be used; expected channels, height and width", input_shape=(32, 32))
    with pytest.raises(sordino.ModelError, match="divide each number by 255"):
        sordino.freeze(trained, draw(2, seed=6)[0], mean=[123, 116, 103], deviation=DEVIATION)


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (np.zeros((3, 16, 16), np.uint8), "the image is 3x16x16, the network takes 3x32x32"),
        (np.zeros((2, 2, 3, 32, 32), np.uint8), "an array of 5 dimensions came"),
        (np.zeros((0, 3, 32, 32), np.uint8), "no images came"),
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
