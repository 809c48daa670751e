"""What is installed: the packages under one name, with their data, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


# by way of the source distribution: neither reads nor leaves a build folder in the tree
def test_the_wheel_holds_the_packages_under_one_name(tmp_path):
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"pyroclaw", wheel.name.split("-py3")[0] + ".dist-info"}
    for source, installed in (
        ("pyroclaw", "pyroclaw"),
        ("models", "pyroclaw/models"),
        ("inference", "pyroclaw/inference"),
        ("learner", "pyroclaw/learner"),
        ("experiments", "pyroclaw/experiments"),
    ):
        expected = {f"{installed}/{path.relative_to(ROOT / source)}" for path in (ROOT / source).rglob("*.py")}
        assert expected <= set(names)
    experiments = ("presets/split_notmnist.toml", "paper.toml", "spaces.toml", "report.css")
    for data in ("py.typed", "data/standin/glyphs.npz", *(f"experiments/{name}" for name in experiments)):
        assert f"pyroclaw/{data}" in names
