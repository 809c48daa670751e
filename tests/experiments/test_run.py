"""The main job, as a user runs it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch

from pyroclaw.data.benchmarks import KNOWN
from pyroclaw.experiments import presets, records, run
from pyroclaw.inference import checkpoint
from pyroclaw.inference.checkpoint import replace_file
from pyroclaw.models import METHODS

SCRIPT = Path(run.__file__)


def arguments(data_dir, out, *more):
    return ["--bench", "split_notmnist", "--data-dir", str(data_dir), "--out", str(out), "--threads", "1", *more]


def record(out):
    """The folder of the one setting that was run, and the summary of its records."""
    (folder,) = {path.parent.parent for path in out.rglob("config.json")}
    return folder, records.summarise(records.read(folder))


def test_a_run_leaves_its_record_and_says_what_it_found(data_dir, tmp_path, capsys):
    code = run.main(arguments(data_dir, tmp_path, "--replicates", "2", "--epochs", "3", "--batch-size", "16"))
    shown = capsys.readouterr().out
    assert code == 0
    folder, results = record(tmp_path)
    config = json.loads((folder / "seed1" / "config.json").read_text())
    assert config["seed"] == 1 and config["stand_in"] is False and config["settings"]["gamma"] == "mean-field"
    assert folder.name.startswith("epochs-3.0_batch_size-16-") and results["seeds"] == [0, 1]
    assert [len(row) for row in results["test_accuracy"]] == [1, 2, 3, 4, 5]
    assert results["average_accuracy"]["mean"] == pytest.approx(np.mean(results["test_accuracy"][-1]), abs=1e-6)
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert len(results["parameters"][0]) == len(results["stored_bytes"][0]) == len(results["train_seconds"][0]) == 5
    assert f"{results['parameters'][0][-1]:,} of one repetition" in shown and "98.40 ± 0.20 %" in shown
    for expected in ("average accuracy", "task 1 over time", "adaptation", "prepared file notmnist.npz", "E/J"):
        assert expected in shown
    assert f"{100 * results['average_accuracy']['mean']:.2f} ± " in shown and "standard error of 2)" in shown


def test_the_first_tasks_alone_are_those_of_the_whole_run_and_are_named(data_dir, tmp_path, capsys):
    budget = ("--replicates", "1", "--epochs", "1", "--batch-size", "16", "--quiet")
    assert run.main(arguments(data_dir, tmp_path / "all", *budget)) == 0
    assert run.main(arguments(data_dir, tmp_path / "two", *budget, "--tasks", "2")) == 0
    (_, whole), (folder, two) = record(tmp_path / "all"), record(tmp_path / "two")
    assert two["test_accuracy"] == whole["test_accuracy"][:2] and two["tasks_finished"] == 2
    assert "(one repetition)" in capsys.readouterr().out
    assert "tasks-2" in folder.name and json.loads((folder / "seed0" / "config.json").read_text())["tasks"] == 2
    for wrong in ("9", "-1"):
        assert run.main(arguments(data_dir, tmp_path / "no", *budget, "--tasks", wrong)) == 2
    shown = capsys.readouterr().err
    assert "tasks=9, but split_notmnist has 5" in shown and "--tasks is -1" in shown and not (tmp_path / "no").exists()


def test_a_lower_precision_of_convolutions_is_named_and_is_another_run(tmp_path, capsys):
    rng, alphabet = np.random.default_rng(0), np.repeat([0, 1], 60)
    images, labels = rng.integers(0, 256, (120, 28, 28), dtype=np.uint8), np.tile(np.repeat([0, 1, 2], 20), 2)
    np.savez(tmp_path / "omniglot.npz", images=images, labels=labels, alphabet=alphabet)
    budget = ("--bench", "omniglot", "--replicates", "1", "--epochs", "0.1", "--batch-size", "16", "--samples", "0")
    elbo = []
    for more in ((), ("--precision", "bfloat16")):
        out = tmp_path / f"out{len(more)}"
        assert run.main([*arguments(tmp_path, out), *budget, "--method", "vcl", "--quiet", *more]) == 0
        folder, results = record(out)
        assert ("precision-bfloat16" in folder.name) == bool(more)
        assert json.loads((folder / "seed0" / "config.json").read_text()).get("precision") == (more or ("", None))[1]
        elbo.append(results["elbo"][0][0])
    assert elbo[0] != elbo[1] and elbo[1] == pytest.approx(elbo[0], rel=0.02)
    assert "not 0.1 epochs, batches of 16, convolutions in bfloat16" in capsys.readouterr().out


def test_a_net_without_convolutions_has_one_precision(data_dir, tmp_path, capsys):
    assert run.main(arguments(data_dir, tmp_path / "out", "--precision", "bfloat16")) == 2
    assert "bfloat16: the net of split_notmnist has no convolutions, leave it out" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_method_whose_nets_differ_runs_its_repetitions_one_by_one(data_dir, tmp_path, capsys):
    options = ("--method", "rcl", "--adapt", "--set", "trials=2", "--replicates", "2", "--epochs", "1", "--quiet")
    assert run.main(arguments(data_dir, tmp_path, *options)) == 0
    folder, results = record(tmp_path)
    config = json.loads((folder / "seed0" / "config.json").read_text())
    assert config["settings"]["adapt"] is True and results["seeds"] == [0, 1]
    assert len(results["parameters"]) == 2 and results["parameters"][0][-1] != results["parameters"][1][-1]
    assert "reduced from the paper's 50" in results["summary"][0][1]["note"]
    shown = capsys.readouterr().out
    assert "note              2 trials per task, reduced" in shown
    assert "97.30 ± 0.50 % (with all of its protocol, not 1 epoch)" in shown


def studies():
    """What searches found and presets name: benchmark, method, and the best trial's settings."""
    for bench in KNOWN:
        _, *tables = re.split(r"^\[(\w+)\]$", (presets.FOLDER / f"{bench}.toml").read_text(), flags=re.MULTILINE)
        for method, text in zip(tables[::2], tables[1::2], strict=True):
            if name := re.search(r"# best of .* study (\S+)", text):
                (found,) = (SCRIPT.parent / "results" / "tuning" / "studies").glob(f"*/{name[1]}/study.json")
                study = json.loads(found.read_text())
                yield bench, method, study["trials"][study["best"]]["settings"]


def test_the_presets_have_what_the_searches_that_they_name_found():
    for bench, method, found in studies():
        preset = presets.settings(METHODS[method].settings, presets.preset(bench)[method])
        assert {name: getattr(preset, name) for name in found} == found, f"{method} on {bench}"


def test_the_presets_have_the_papers_strength_of_ewc_where_none_was_searched():
    searched = {bench for bench, method, _ in studies() if method == "ewc"}
    strength = {
        bench: presets.settings(METHODS["ewc"].settings, presets.preset(bench).get("ewc", {})).lam
        for bench in KNOWN
        if bench not in searched
    }
    assert "omniglot" in searched and strength.pop("split_notmnist") == 10_000
    assert set(strength.values()) == {100}


def test_every_method_is_listed_with_its_line(capsys):
    assert run.main(["--method", "list"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown] == list(METHODS)
    assert all(entry.about in line for entry, line in zip(METHODS.values(), shown, strict=True))


def test_the_same_seed_gives_the_same_results(data_dir, tmp_path):
    found = []
    for name in ("a", "b"):
        out = tmp_path / name
        assert run.main(arguments(data_dir, out, "--replicates", "1", "--epochs", "1", "--quiet", "--seed", "3")) == 0
        _, results = record(out)
        found.append((results["test_accuracy"], results["elbo"]))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (["--bench", "split_notmist"], "did you mean split_notmnist"),
        (["--method", "clav"], "did you mean claw"),
        (["--device", "cuda"], "--device auto or cpu"),
        (["--replicates", "0"], "--replicates is 0"),
        (["--seed", "-1"], "--seed is -1"),
        (["--checkpoint", "-1"], "--checkpoint is -1"),
        (["--set", "beta"], "NAME=VALUE"),
        (["--set", "betta=1"], "did you mean beta"),
        (["--set", "beta=x"], "must be a number"),
        (["--set", "gamma=loose"], "mean-field, tied"),
        (["--adapt"], "--adapt is for --method rcl"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(data_dir, tmp_path, capsys, wrong, sentence):
    if wrong == ["--device", "cuda"] and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    assert run.main(arguments(data_dir, tmp_path / "runs", *wrong)) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_cannot_be_written_is_named(data_dir, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run.main(arguments(data_dir, tmp_path / "file")) == 2
    assert "--out" in capsys.readouterr().err


def test_a_damaged_data_file_is_named(tmp_path, capsys):
    (tmp_path / "notmnist.npz").write_bytes(b"PK\x03\x04 not really")
    assert run.main(arguments(tmp_path, tmp_path / "runs")) == 2
    error = capsys.readouterr().err
    assert "notmnist.npz" in error and error.count("\n") == 1


def test_sigint_stops_after_the_batch_and_keeps_what_is_finished(data_dir, tmp_path):
    command = [sys.executable, str(SCRIPT), *arguments(data_dir, tmp_path, "--replicates", "1", "--epochs", "100")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ)
    deadline = time.monotonic() + 120
    while not list(tmp_path.rglob("unfinished.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130
    assert error.startswith("pyroclaw: interrupted;") and "--epochs 100" in error and error.count("\n") == 1
    folder, results = record(tmp_path)
    assert 1 <= results["tasks_finished"] < 5 and f"{results['tasks_finished']} finished" in error
    names = {path.name for path in (folder / "seed0").iterdir()}
    assert names == {"config.json", "unfinished.json"}  # nothing half-written


def bits(folder):
    """The records but for time, memory and machine."""
    besides = ("train_seconds", "peak_memory_mb", "environment", "config")
    return [{key: value for key, value in one.items() if key not in besides} for one in records.read(folder)]


class Stop:
    """As Ctrl-C would, after so many questions."""

    def __init__(self, after):
        self.left = after

    def __call__(self):
        self.left -= 1
        return self.left < 0


def test_resume_goes_on_from_an_interrupt_and_leaves_finished_repetitions_alone(
    data_dir, tmp_path, monkeypatch, capsys
):
    options = (
        "--replicates",
        "2",
        "--epochs",
        "2",
        "--batch-size",
        "16",
        "--quiet",
        "--samples",
        "0",
        "--method",
        "ltg",
    )
    assert run.main(arguments(data_dir, tmp_path / "whole", *options)) == 0
    expected = bits(record(tmp_path / "whole")[0])
    with monkeypatch.context() as patch:
        patch.setattr(
            run, "sigint", lambda: nullcontext(Stop(80))
        )  # in the second repetition: ltg runs them one by one
        assert run.main(arguments(data_dir, tmp_path / "cut", *options)) == 130
    assert "--resume" in capsys.readouterr().err
    folder, _ = record(tmp_path / "cut")
    first = (folder / "seed0" / "results.json").read_bytes()
    assert run.main(arguments(data_dir, tmp_path / "cut", *options, "--resume")) == 0
    assert bits(folder) == expected and (folder / "seed0" / "results.json").read_bytes() == first
    assert run.main(arguments(data_dir, tmp_path / "cut", *options, "--resume")) == 0  # all is there
    assert bits(folder) == expected and not list(folder.glob("checkpoint-*"))


def test_a_damaged_checkpoint_is_told_and_the_run_still_ends_the_same(data_dir, tmp_path, monkeypatch, capsys):
    options = ("--replicates", "1", "--epochs", "2", "--batch-size", "16", "--samples", "0", "--method", "vcl")
    assert run.main(arguments(data_dir, tmp_path / "whole", *options)) == 0
    with monkeypatch.context() as patch:
        patch.setattr(run, "sigint", lambda: nullcontext(Stop(20)))
        assert run.main(arguments(data_dir, tmp_path / "cut", *options)) == 130
    newest = max(tmp_path.rglob("checkpoint-0-0/tasks/*.json"))
    newest.write_text(newest.read_text()[:-9])
    capsys.readouterr()
    assert run.main(arguments(data_dir, tmp_path / "cut", *options, "--resume")) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if "cannot be used" in line]
    assert len(told) == 1 and str(newest) in told[0]
    assert bits(record(tmp_path / "cut")[0]) == bits(record(tmp_path / "whole")[0])


def test_a_disk_that_fills_up_is_one_sentence_and_the_run_can_go_on(data_dir, tmp_path, monkeypatch, capsys):
    options = (
        "--replicates",
        "1",
        "--epochs",
        "2",
        "--batch-size",
        "16",
        "--samples",
        "0",
        "--method",
        "vcl",
        "--quiet",
    )
    assert run.main(arguments(data_dir, tmp_path / "whole", *options)) == 0
    capsys.readouterr()
    written = []

    def full(path, content):
        written.append(path)
        if len(written) > 6:
            raise OSError(28, "No space left on device")
        replace_file(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "replace_file", full)
        assert run.main(arguments(data_dir, tmp_path / "cut", *options)) == 2
    error = capsys.readouterr().err
    assert "No space left on device" in error and "make room" in error and error.count("\n") == 1
    assert run.main(arguments(data_dir, tmp_path / "cut", *options, "--resume")) == 0
    assert bits(record(tmp_path / "cut")[0]) == bits(record(tmp_path / "whole")[0])


def test_help_shows_every_option_with_its_default(capsys):
    with pytest.raises(SystemExit) as end:
        run.main(["--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    for option in (
        "--method", "--bench", "--replicates", "--seed", "--epochs", "--batch-size", "--device", "--data-dir",
        "--out", "--threads", "--quiet", "--resume", "--checkpoint",
    ):  # fmt: skip
        assert option in shown
    assert "split_notmnist" in shown and "{auto,cpu,cuda}" in shown


@pytest.mark.parametrize("bench", KNOWN)
def test_every_benchmark_has_a_preset_that_every_method_can_read(bench):
    preset = presets.preset(bench)
    assert preset["replicates"] > 0
    for name, entry in METHODS.items():
        presets.settings(entry.settings, preset.get(name, {}))
    assert set(preset) <= {"replicates", *METHODS}
