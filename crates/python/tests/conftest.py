"""A small network, trained for some seconds on images that were drawn here."""

import numpy as np
import pytest
import torch

import sordino

MEAN, DEVIATION = [0.5, 0.5, 0.5], [0.25, 0.25, 0.25]
CLASSES = ["rows", "columns", "checks", "plain"]
SIDE = 32


def draw(count, seed):
    """Stripes, checks and plain areas in random colors and phases under noise: images from 0 to 255, and their classes."""
    random = np.random.default_rng(seed)
    classes = random.integers(len(CLASSES), size=count)
    rows, columns = np.mgrid[:SIDE, :SIDE]
    images = np.empty((count, 3, SIDE, SIDE), dtype=np.uint8)
    for image, kind in zip(images, classes):
        period, phase = random.integers(4, 9), random.integers(8)
        rows_on, columns_on = ((axis + phase) % period < period / 2 for axis in (rows, columns))
        pattern = [rows_on, columns_on, rows_on ^ columns_on, np.ones_like(rows_on)][kind]
        dark, light = random.uniform(30, 110, size=(3, 1, 1)), random.uniform(140, 225, size=(3, 1, 1))
        noise = random.normal(0, 12, size=(3, SIDE, SIDE))
        image[:] = np.clip(np.where(pattern, light, dark) + noise, 0, 255)
    return images, classes


def normalized(images):
    shape = (1, 3, 1, 1)
    pixels = (images / 255 - np.reshape(MEAN, shape)) / np.reshape(DEVIATION, shape)
    return torch.from_numpy(pixels.astype(np.float32))


def block(inputs, outputs, stride):
    convolution = torch.nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
    return torch.nn.Sequential(convolution, torch.nn.BatchNorm2d(outputs), torch.nn.ReLU())


def small_network(classes):
    return torch.nn.Sequential(
        block(3, 8, 1), block(8, 16, 2), block(16, 32, 2),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, classes),
    )


@pytest.fixture(scope="session")
def trained():
    torch.manual_seed(1)
    images, classes = draw(1024, seed=1)
    images, classes = normalized(images), torch.from_numpy(classes)
    network = small_network(len(CLASSES)).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(6):
        for chosen in torch.randperm(len(images)).split(64):
            loss = torch.nn.functional.cross_entropy(network(images[chosen]), classes[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network.eval()


@pytest.fixture(scope="session")
def model(trained):
    """The trained network, frozen by one line."""
    return sordino.freeze(trained, draw(32, seed=2)[0], mean=MEAN, deviation=DEVIATION, class_names=CLASSES, name="patterns")


@pytest.fixture(scope="session")
def test_set():
    return draw(200, seed=3)
