"""Putting a table into a preset: it says what it should, and the rest of the file is as it was."""

import tomllib

import pytest

from pyroclaw.errors import InputError
from pyroclaw.experiments import presets
from pyroclaw.experiments.preset_writer import put, with_table
from pyroclaw.models import METHODS

TEXT = """# the protocol
replicates = 10

[ewc]  # strong
lam = 10000  # the paper's value here
# a remark at the end

# of the next
[gvcl_film]
lam = 10  # chosen
"""


@pytest.mark.parametrize("method", ["ewc", "gvcl_film", "claw"])
def test_a_table_is_put_into_a_preset(method, tmp_path):
    path = tmp_path / "bench.toml"
    path.write_text(TEXT)
    values = {"beta": 1e-05, "film": False, "gamma": "tied", "points": 3}
    put(path, method, values, "study s")
    assert tomllib.loads(path.read_text()) == tomllib.loads(TEXT) | {method: values}
    kept = [line for line in TEXT.splitlines() if not line.startswith(("[ewc]", "lam"))]
    lines = path.read_text().splitlines()
    assert [line for line in lines if line in kept] == kept + [""] * (method == "claw")
    assert "# study s" in lines and list(tmp_path.iterdir()) == [path]
    again = path.read_text()
    put(path, method, values, "study s")
    assert path.read_text() == again


def test_a_preset_that_does_not_exist_is_made(tmp_path):
    put(tmp_path / "new" / "bench.toml", "vcl", {"lr": 0.01}, "study s")
    assert (tmp_path / "new" / "bench.toml").read_text() == "[vcl]\n# study s\nlr = 0.01\n"


@pytest.mark.parametrize("text", ["vcl = { lr = 0.1 }\n", "vcl.lr = 0.1\n", "note = '''\n[vcl]\nlr = 1\n'''\n", "a = "])
def test_a_preset_of_an_unusual_form_is_left_alone(text, tmp_path):
    path = tmp_path / "bench.toml"
    path.write_text(text)
    with pytest.raises(InputError, match="edit it by hand"):
        put(path, "vcl", {"lr": 0.01}, "study s")
    assert path.read_text() == text and list(tmp_path.iterdir()) == [path]


def test_the_shipped_presets_can_be_edited():
    for path in presets.FOLDER.glob("*.toml"):
        text = path.read_text(encoding="utf-8")
        for method in METHODS:
            assert tomllib.loads(with_table(text, method, {"lr": 0.5}, "s")) == tomllib.loads(text) | {
                method: {"lr": 0.5}
            }
