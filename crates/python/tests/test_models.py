"""From a torch module to a model: what it says in the clear and in private, and its file."""

import numpy as np
import onnxruntime
import pytest
import torch

import sordino
from conftest import CLASSES, DEVIATION, MEAN, draw, normalized, small_network


def agreement(first, second):
    return np.mean(np.argmax(first, axis=1) == np.argmax(second, axis=1))


def test_a_trained_network_keeps_its_accuracy(trained, model, test_set):
    images, classes = test_set
    with torch.no_grad():
        floats = trained(normalized(images)).numpy()
    integers = model.plain(images)
    assert integers.shape == (200, 4) and integers.dtype == np.float32
    assert np.mean(np.argmax(floats, axis=1) == classes) > 0.9, "the network learned something"
    assert agreement(integers, floats) >= 0.98
    assert np.abs(integers - floats).max() < 0.05 * np.ptp(floats)


def test_private_inference_equals_the_reference(model, test_set):
    found = model.verify(test_set[0][:3])
    assert found and found.equal and found.images == 3
    assert found.class_agreements == 3
    assert found.private.shape == (3, 4)
    np.testing.assert_array_equal(found.plain, model.plain(test_set[0][:3]))


def test_figures_of_a_model(model):
    figures = model.inspect()
    assert figures["network"] == model.name == "patterns"
    assert figures["input"] == [3, 32, 32] and model.input_shape == (3, 32, 32)
    assert figures["relus"] == 8 * 32 * 32 + 16 * 16 * 16 + 32 * 8 * 8
    assert figures["class_names"] == model.class_names == CLASSES
    np.testing.assert_allclose(figures["mean"], MEAN)
    np.testing.assert_allclose(figures["deviation"], DEVIATION)
    private = figures["private"]
    assert private["online"]["rounds"] > 2 and private["offline"]["bytes_down"] > private["later_offline"]["bytes_down"]
    assert model.report["calibration_images"] == 32
    assert repr(model) == "<sordino.Model patterns, 3x32x32 to 4 classes>"


def test_a_model_survives_its_file(model, test_set, tmp_path):
    model.save(tmp_path / "patterns.sordino")
    again = sordino.Model.load(str(tmp_path / "patterns.sordino"))
    assert again.inspect() == model.inspect() and again.report is None
    np.testing.assert_array_equal(again.plain(test_set[0][:5]), model.plain(test_set[0][:5]))


def test_layouts_and_types_of_images_are_the_same_to_a_model(model, test_set):
    images = test_set[0][:4]
    expected = model.plain(images)
    for other in [
        images.transpose(0, 2, 3, 1),
        images.astype(np.int64),
        images / 255,
        (images / 255).astype(np.float32),
        torch.from_numpy(images),
        torch.from_numpy(images).float() / 255,
        list(images),
    ]:
        np.testing.assert_array_equal(model.plain(other), expected)
    np.testing.assert_array_equal(model.plain(images[0]), expected[0])


def test_a_file_with_a_dynamic_batch_axis(trained, model, test_set, tmp_path):
    path = tmp_path / "dynamic.onnx"
    torch.onnx.export(trained, (torch.zeros(2, 3, 32, 32),), str(path), opset_version=17, dynamo=False,
                      input_names=["image"], dynamic_axes={"image": {0: "batch"}})
    calibration = draw(32, seed=2)[0]
    from_file = sordino.freeze(path, calibration, mean=MEAN, deviation=DEVIATION)
    assert from_file.name == "dynamic"
    np.testing.assert_array_equal(from_file.plain(test_set[0][:20]), model.plain(test_set[0][:20]))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (oracle,) = session.run(None, {"image": normalized(test_set[0]).numpy()})
    assert agreement(from_file.plain(test_set[0]), oracle) >= 0.98


def test_half_precision_weights(trained, model, test_set):
    import copy

    half = copy.deepcopy(trained).half()
    frozen = sordino.freeze(half, draw(32, seed=2)[0], mean=MEAN, deviation=DEVIATION)
    assert next(half.parameters()).dtype == torch.float16, "the module itself stays as it was"
    assert agreement(frozen.plain(test_set[0]), model.plain(test_set[0])) >= 0.98


def test_a_file_with_half_precision_weights(trained, model, test_set, tmp_path):
    import copy

    path = tmp_path / "half.onnx"
    torch.onnx.export(copy.deepcopy(trained).half(), (torch.zeros(1, 3, 32, 32).half(),), str(path), opset_version=17,
                      dynamo=False)
    frozen = sordino.freeze(path, draw(32, seed=2)[0], mean=MEAN, deviation=DEVIATION)
    assert agreement(frozen.plain(test_set[0]), model.plain(test_set[0])) >= 0.98


def test_a_missing_calibration_set_is_said(trained):
    with pytest.warns(sordino.SordinoWarning, match="scales were calibrated on random images"):
        frozen = sordino.freeze(trained, mean=MEAN, deviation=DEVIATION, input_shape=(3, 32, 32))
    assert frozen.classes == 4
    with pytest.raises(sordino.ModelError, match="give calibration_images, or input_shape"):
        sordino.freeze(trained, mean=MEAN, deviation=DEVIATION)


def test_a_missing_normalization_is_said(trained):
    with pytest.warns(sordino.SordinoWarning, match="usual mean and deviation of CIFAR"):
        sordino.freeze(trained, draw(2, seed=4)[0])


def test_a_thousand_classes():
    torch.manual_seed(2)
    images = draw(4, seed=5)[0]
    names = [f"thing {number}" for number in range(1000)]
    frozen = sordino.freeze(small_network(1000).eval(), images, mean=MEAN, deviation=DEVIATION, class_names=names)
    assert (frozen.classes, frozen.class_names[999]) == (1000, "thing 999")
    found = frozen.verify(images[0])
    assert found and found.private.shape == (1, 1000)


def test_other_widths(trained, model):
    calibration = draw(8, seed=2)[0]
    wide = sordino.freeze(trained, calibration, mean=MEAN, deviation=DEVIATION, weight_bits=12, activation_bits=12)
    coarse = sordino.freeze(trained, calibration, mean=MEAN, deviation=DEVIATION, outline="coarse")
    digests = {each.inspect()["digest"] for each in (wide, coarse, model)}
    assert len(digests) == 3
