"""Commands that README and docs show are understood by what they call."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
import tyro

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SHOWN = [
    (page.name, line)
    for page in PAGES
    for block in re.findall(r"^```\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
    if line.startswith(("python experiments/", "pyroclaw "))
]


def test_there_are_commands_to_check():
    assert {"README.md", "evaluation.md", "cluster.md", "methods.md"} <= {name for name, _ in SHOWN}


@pytest.mark.parametrize(("page", "line"), SHOWN)
def test_a_command_is_understood(page, line):
    program, *arguments = shlex.split(line, comments=True)
    if program == "python":
        script, *arguments = arguments
        assert (ROOT / script).is_file()
        program = Path(script).stem
    module = import_module(f"pyroclaw.experiments.{'run' if program == 'pyroclaw' else program}")
    if hasattr(module, "Options"):
        tyro.cli(module.Options, args=arguments)
