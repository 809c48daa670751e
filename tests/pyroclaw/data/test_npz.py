"""Prepared files: read with every check, written whole or not at all."""

import io
import os
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclaw.data import npz
from pyroclaw.data.dataset import DataSet
from pyroclaw.data.npz import member_shapes, read_npz, write_npz
from pyroclaw.errors import InputError

fuzz = settings(max_examples=150, deadline=None, derandomize=not os.environ.get("UNLOCK_SEED"))


def good(n: int = 20) -> dict[str, np.ndarray]:
    return {"images": np.random.randint(0, 256, (n, 28, 28), np.uint8), "labels": np.arange(n, dtype=np.uint8) % 10}


def omniglot() -> dict[str, np.ndarray]:
    arrays = {"labels": np.array([0, 1, 0, 1, 2]), "alphabet": np.array([0, 0, 1, 1, 1])}
    return {**arrays, "images": np.zeros((5, 28, 28), np.uint8), "drawer": np.zeros(5, np.int8)}


def test_a_good_file_is_read_as_it_was_written(tmp_path):
    arrays = good()
    write_npz(tmp_path / "mnist.npz", {**arrays, "official_test": np.arange(20) > 15})
    data = read_npz(tmp_path / "mnist.npz", "mnist")
    np.testing.assert_array_equal(data.images, arrays["images"])
    np.testing.assert_array_equal(data.labels, arrays["labels"])
    assert data.labels.dtype == np.int64 and data.images.flags.writeable
    assert data.source == "prepared file mnist.npz in the data folder" and not data.standin
    assert data.extras["official_test"].sum() == 4
    assert member_shapes(tmp_path / "mnist.npz")["images"] == (20, 28, 28)


def test_the_source_tells_the_recorded_origin(tmp_path):
    write_npz(tmp_path / "mnist.npz", {**good(), "origin": np.array("idx files")})
    assert read_npz(tmp_path / "mnist.npz", "mnist").source == "idx files, prepared as mnist.npz in the data folder"


def test_omniglot_numbers_its_classes_in_each_alphabet(tmp_path):
    write_npz(tmp_path / "omniglot.npz", omniglot())
    assert read_npz(tmp_path / "omniglot.npz", "omniglot").extras["alphabet"].tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": None}, "lacks the key 'labels'"),
        ({"pictures": np.zeros(3)}, "unknown key 'pictures'"),
        ({"images": np.zeros((20, 28, 28), np.int16)}, "images are int16, not uint8"),
        ({"images": np.full((20, 28, 28), np.nan)}, "NaN or infinity"),
        ({"images": np.full((20, 28, 28), np.inf, np.float32)}, "NaN or infinity"),
        ({"images": np.zeros((20, 28, 28))}, "images are float64, not uint8"),
        ({"images": np.zeros((20, 28, 27), np.uint8)}, r"shape \[20, 28, 27\], not \[n, 28, 28\]"),
        ({"images": np.zeros((0, 28, 28), np.uint8)}, "n > 0"),
        ({"images": np.array(1, np.uint8)}, r"shape \[\]"),
        ({"labels": np.arange(19) % 10}, r"labels have shape \[19\], not \[20\]"),
        ({"labels": np.arange(20) % 10 / 1}, "labels are float64, not integers"),
        ({"labels": np.arange(20) % 10 - 1}, "negative number -1"),
        ({"labels": np.arange(20) % 11}, "labels contain 10, out of the range 0..9"),
        ({"labels": np.full(20, 2**64 - 1, np.uint64)}, "out of the range"),
        ({"labels": np.where(np.arange(20) % 10 == 4, 0, np.arange(20) % 10)}, "no image of class 4"),
        ({"font": np.zeros(3, int)}, r"font have shape \[3\], not \[20\]"),
        ({"official_test": np.zeros(20, int)}, "official_test are int64, not bool"),
        ({"class_names": np.array(list("abc"))}, "class_names hold 3 names, too few for number 9"),
        ({"class_names": np.arange(10)}, "class_names must be a list of strings"),
        ({"origin": np.array(["a"])}, "origin must be one string"),
        ({"images": np.array([{}], object)}, "Python objects, which are never unpickled"),
    ],
)
def test_wrong_contents_are_named_in_one_sentence(tmp_path, change, words):
    path = tmp_path / "mnist.npz"
    np.savez(path, **{key: value for key, value in {**good(), **change}.items() if value is not None})
    with pytest.raises(InputError, match=words) as raised:
        read_npz(path, "mnist")
    assert str(path) in str(raised.value) and "prepare mnist" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"alphabet": None}, "lacks the key 'alphabet'"),
        ({"alphabet": np.array([0, 0, 2, 2, 2])}, "no image of alphabet 1"),
        ({"labels": np.array([0, 1, 0, 1, 3])}, "no image of class 2"),
        ({"labels": np.array([0, 2, 0, 1, 2])}, "in alphabet 0 there is no image of class 1"),
    ],
)
def test_gaps_in_omniglot_are_found(tmp_path, change, words):
    arrays = {key: value for key, value in {**omniglot(), **change}.items() if value is not None}
    write_npz(tmp_path / "omniglot.npz", arrays)
    with pytest.raises(InputError, match=words):
        read_npz(tmp_path / "omniglot.npz", "omniglot")


def test_a_missing_file_and_one_of_another_kind_are_named(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_npz(tmp_path / "mnist.npz", "mnist")
    (tmp_path / "mnist.npz").write_text("<html>not found</html>")
    with pytest.raises(InputError, match=r"damaged or no \.npz file"):
        read_npz(tmp_path / "mnist.npz", "mnist")
    (tmp_path / "notmnist.npz").mkdir()
    with pytest.raises(InputError, match=r"damaged or no \.npz file"):
        read_npz(tmp_path / "notmnist.npz", "notmnist")


def test_a_file_that_would_unpack_to_too_much_is_not_unpacked(tmp_path, monkeypatch):
    write_npz(tmp_path / "mnist.npz", good())
    monkeypatch.setattr(npz, "LIMIT", 20 * 28 * 28)
    with pytest.raises(InputError, match="would unpack to more than"):
        read_npz(tmp_path / "mnist.npz", "mnist")


def test_a_header_that_declares_more_than_there_is_allocates_nothing(tmp_path):
    path = tmp_path / "mnist.npz"
    with zipfile.ZipFile(path, "w") as archive:
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": (2**40, 28, 28)})
        archive.writestr("images.npy", stream.getvalue() + b"few bytes")
    with pytest.raises(InputError, match="not as long as its header says"):
        read_npz(path, "mnist")


def test_a_failure_in_writing_leaves_the_old_file_and_no_half_file(tmp_path, monkeypatch):
    path = tmp_path / "mnist.npz"
    write_npz(path, good(20))

    def fails(stream, **_):
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", fails)
    with pytest.raises(OSError, match="No space"):
        write_npz(path, good(30))
    assert [each.name for each in tmp_path.iterdir()] == ["mnist.npz"]
    assert len(read_npz(path, "mnist")) == 20


def read_bytes(content: bytes, name: str = "mnist") -> DataSet | None:
    """A data set or None for an `InputError`; any other exception is what the fuzzing looks for."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.npz"
        path.write_bytes(content)
        try:
            return read_npz(path, name)
        except InputError as error:
            assert str(path) in str(error) and "\n" not in str(error)
            return None


def packed(arrays: dict[str, np.ndarray], compress: bool) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if compress else np.savez)(stream, **arrays)
    return stream.getvalue()


@fuzz
@given(st.data(), st.booleans())
def test_no_truncation_and_no_flipped_byte_gives_another_error(data, compress):
    content = bytearray(packed(good(10), compress))
    end = data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))
    # Most bytes are pixels; half of the flips are drawn from the two ends, where the headers are.
    places = st.one_of(st.integers(0, len(content) - 1), st.integers(0, 200), st.integers(1, 400).map(lambda i: -i))
    for place in data.draw(st.lists(places, max_size=4)):
        content[place] ^= data.draw(st.integers(1, 255))
    read = read_bytes(bytes(content[:end]))
    assert read is None or (read.images.shape == (10, 28, 28) and set(read.labels) == set(range(10)))


descriptions = st.sampled_from(["|u1", "|O", "<U-1", "u1,f4", "", "|V0", ["x"], None, 7])
shapes = st.one_of(st.lists(st.integers(-3, 2**65), max_size=3).map(tuple), st.sampled_from(["(", None, (1.5,), True]))
headers = st.one_of(
    st.builds(lambda d, s: repr({"descr": d, "fortran_order": False, "shape": s}), descriptions, shapes),
    st.text(max_size=40),
)


@fuzz
@given(headers, st.sampled_from([1, 2, 3, 9]), st.binary(max_size=20), st.sampled_from(["images.npy", "images", "/"]))
def test_no_header_of_a_member_gives_another_error(header, version, content, member):
    text = header.encode("latin1", "replace") + b"\n"
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(member, b"\x93NUMPY" + bytes([version, 0]) + length + text + content)
    assert read_bytes(stream.getvalue()) is None


arrays_of_any_kind = st.builds(
    lambda shape, dtype, value: np.full(shape, value).astype(dtype),
    st.one_of(
        st.sampled_from([(10,), (10, 28, 28), (10, 32, 32, 3), ()]), st.lists(st.integers(0, 12), max_size=4).map(tuple)
    ),
    st.sampled_from(["u1", "i8", "u8", ">i4", "f4", "f8", "?", "c8", "U3", "S2", "M8[s]"]),
    st.integers(0, 100),
)
keys = st.sampled_from(["images", "labels", "alphabet", "font", "official_test", "class_names", "origin", "other"])


@fuzz
@given(st.dictionaries(keys, arrays_of_any_kind), st.booleans(), st.sampled_from(["mnist", "omniglot", "cifar100"]))
def test_no_keys_shapes_or_dtypes_give_another_error(changes, start_good, name):
    start = {"images": np.zeros((10, 28, 28), np.uint8), "labels": np.arange(10)} if start_good else {}
    if start_good and name == "omniglot":
        start["alphabet"] = np.zeros(10, int)
    read = read_bytes(packed({**start, **changes}, compress=False), name)
    assert read is None or (len(read.images) == len(read.labels) > 0 and read.images.dtype == np.uint8)
