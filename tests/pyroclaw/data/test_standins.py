"""Embedded stand-ins: never under the real name, always announced."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from pyroclaw.data import load, standins
from pyroclaw.data.npz import write_npz
from pyroclaw.errors import InputError

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.fixture
def glyphs(tmp_path, monkeypatch):
    """A small file of the form of the embedded one."""
    write_npz(
        tmp_path / "glyphs.npz",
        {
            "images": np.random.randint(0, 256, (20, 28, 28), np.uint8),
            "labels": np.arange(20, dtype=np.uint8) % 10,
            "font": (np.arange(20) // 10).astype(np.int16),
            "font_names": np.array(["One", "Two"]),
            "licences": np.array(["OFL-1.1", "Apache-2.0"]),
        },
    )
    monkeypatch.setattr(standins, "GLYPHS", tmp_path / "glyphs.npz")


def test_digits_serve_for_mnist_and_say_so(tmp_path):
    lines = []
    data = load("mnist", tmp_path, log=lines.append)
    assert data.name == "digits" and data.standin and data.source.startswith("stand-in: scikit-learn's 1797 digits")
    assert data.images.shape == (1797, 28, 28) and data.images.dtype == np.uint8
    assert [line for line in lines if "USING THE STAND-IN 'digits'" in line and "not MNIST" in line]
    assert standins.size("digits") == len(data)


def test_digits_are_enlarged_by_linear_interpolation_between_pixel_centres():
    data, small = standins.standin("digits"), load_digits()
    np.testing.assert_array_equal(data.labels, small.target)
    places = (np.arange(28) + 0.5) * 8 / 28 - 0.5
    weights = np.array([np.interp(places, np.arange(8), unit) for unit in np.eye(8)])  # [8, 28]
    expected = np.einsum("nij,ik,jl->nkl", small.images * 255 / 16, weights, weights)
    np.testing.assert_allclose(data.images, expected, atol=0.51)
    assert data.images.min() == 0 and data.images.max() == 255


@pytest.mark.usefixtures("glyphs")
def test_glyphs_serve_for_notmnist_and_say_so(tmp_path):
    lines = []
    data = load("notmnist", tmp_path, log=lines.append)
    assert data.name == "glyphs" and data.standin and len(data) == 20
    assert data.source == "stand-in: glyphs A to J rendered from 2 open fonts (not notMNIST)"
    assert data.extras["font"].tolist() == [0] * 10 + [1] * 10 and data.extras["licences"][1] == "Apache-2.0"
    assert [line for line in lines if "USING THE STAND-IN 'glyphs'" in line]
    assert standins.size("glyphs") == 20


@pytest.mark.usefixtures("glyphs")
@pytest.mark.parametrize("name", ["glyphs", "digits"])
def test_a_stand_in_can_be_asked_for_by_its_own_name(name):
    assert load(name, log=lambda line: None).name == name
    with pytest.raises(InputError, match=f"{name} is a stand-in, which --data real refuses"):
        load(name, data="real")


@pytest.mark.parametrize("name", ["mnist", "notmnist"])
def test_real_refuses_stand_ins(tmp_path, name):
    with pytest.raises(InputError, match=f"no data for {name}: .*no answer from"):
        load(name, tmp_path, data="real", log=lambda line: None)


@pytest.mark.parametrize("name", ["fashion_mnist", "omniglot", "cifar100"])
def test_other_sets_have_no_stand_in(tmp_path, name):
    with pytest.raises(InputError, match=f"no data for {name}"):
        load(name, tmp_path, download=False, log=lambda line: None)


def test_a_missing_embedded_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(standins, "GLYPHS", tmp_path / "absent.npz")
    with pytest.raises(
        InputError, match=r"absent\.npz cannot be used because it does not exist: install pyroclaw anew"
    ):
        load("glyphs")
