"""Searching settings: fair, on validation parts only, and the same whether it was stopped or not."""

import dataclasses
import json
import math
import signal
import sys

import numpy as np
import pytest
from filelock import FileLock

from pyroclaw.experiments import job, presets, spaces, tune
from pyroclaw.inference.svi import Diverged
from pyroclaw.models import METHODS


@pytest.fixture(autouse=True)
def no_presets(tmp_path_factory, monkeypatch):
    """A folder of presets of the test's own."""
    folder = tmp_path_factory.mktemp("presets")
    monkeypatch.setattr(presets, "FOLDER", folder)
    return folder


@pytest.fixture
def small(toy, monkeypatch):
    """Every benchmark is the toy one."""

    def benchmark(self, say):
        return dataclasses.replace(toy, name=self.bench, title=self.bench, epochs=2)

    monkeypatch.setattr(job.Common, "benchmark", benchmark)


@pytest.fixture
def invented(small, monkeypatch):
    """Nothing is trained: accuracy falls with the distance of the settings from an optimum, which benchmarks shift."""
    made = []

    def accuracy(job, options, view, stop):
        made.append((job.results.config["bench"], job.settings))
        shift = {"split_notmnist": 0.0, "split_fashion": 1.0}[options.bench]
        optimum = {"lr": -2.5, "lam": 2 + shift, "beta": -2 + shift}
        values = dataclasses.asdict(job.settings)
        return math.exp(-sum(abs(math.log10(values[name]) - at) for name, at in optimum.items() if name in values) / 9)

    monkeypatch.setattr(tune, "accuracy", accuracy)
    return made


def call(out, *more):
    return tune.main(["--out", str(out), "--quiet", *map(str, more)])


def studies(out):
    """By method."""
    found = [json.loads(path.read_text()) for path in out.glob("studies/*/*/study.json")]
    return {one["method"]: one for one in found}


@pytest.fixture
def data_dir(tmp_path):
    """A prepared file in the format of notMNIST: noisy templates, 20 of each letter."""
    generator = np.random.default_rng(0)
    templates = generator.integers(0, 256, (10, 28, 28))
    labels = np.arange(200) % 10
    images = np.clip(templates[labels] + generator.normal(0, 60, (200, 28, 28)), 0, 255).astype(np.uint8)
    np.savez(tmp_path / "notmnist.npz", images=images, labels=labels, font=np.arange(200) // 10)
    return tmp_path


def test_a_search_improves_on_a_bad_preset(data_dir, tmp_path, no_presets, capsys):
    (no_presets / "split_notmnist.toml").write_text("replicates = 3\n[independent]\nlr = 1e-8  # bad\n")
    options = ["--data-dir", data_dir, "--epochs", 3, "--batch-size", 8, "--replicates", 1, "--trials", 3]
    assert call(tmp_path / "runs", *options, "--methods", "independent", "--write-presets") == 0
    study = studies(tmp_path / "runs")["independent"]
    values = [trial["value"] for trial in study["trials"]]
    assert study["trials"][0]["settings"]["lr"] == 1e-8 and len(values) == 3
    assert max(values) == values[study["best"]] > values[0] + 0.1
    best = study["trials"][study["best"]]["settings"]["lr"]
    assert job.settings_of("split_notmnist", "independent").lr == best != 1e-8
    assert f"lr={best}" in capsys.readouterr().out
    text = (no_presets / "split_notmnist.toml").read_text()
    assert text.startswith("replicates = 3\n") and "best of 3 trials" in text and "study independent-" in text
    # ordinary records were left, of which the value is made
    records = [json.loads(path.read_text()) for path in (tmp_path / "runs/split_notmnist").rglob("results.json")]
    assert sorted(np.mean(record["validation_accuracy"][-1]) for record in records) == pytest.approx(sorted(values))


def test_test_accuracies_are_not_looked_at(tmp_path, small, monkeypatch, capsys):
    arguments = ["--methods", "ewc", "--trials", 3]
    assert tune.main(["--out", str(tmp_path), *map(str, arguments)]) == 0
    honest, printed = studies(tmp_path)["ewc"], capsys.readouterr().out
    original, replaced = job.learn_tasks, []

    def poisoned(*args, **options):
        for learned in original(*args, **options):
            replaced.append(learned.index)
            yield dataclasses.replace(learned, test=1e6 * (1 + learned.test))

    monkeypatch.setattr(job, "learn_tasks", poisoned)
    monkeypatch.setattr(job.Results, "_record", _without_test(job.Results._record))
    other = tmp_path / "o"
    assert tune.main(["--out", str(other), *map(str, arguments)]) == 0
    assert replaced and studies(other)["ewc"] == honest
    assert capsys.readouterr().out.replace(str(other), str(tmp_path)) == printed


def _without_test(original):
    def record(*args):
        return original(*args) | {"test_accuracy": "poison", "calibration": "poison"}

    return record


def test_what_is_on_record_is_not_run_again(tmp_path, small, no_presets, monkeypatch):
    ran, original = [], job.Job.run

    def run(self, seeds, *args, **options):
        ran.append((self.settings.lr, list(seeds)))
        return original(self, seeds, *args, **options)

    monkeypatch.setattr(job.Job, "run", run)
    assert call(tmp_path, "--methods", "finetune", "--trials", 1, "--replicates", 1) == 0
    assert ran == [(1e-3, [0])]
    # more repetitions are another study: it needs the new one only; and the record's folder was named by another preset
    (no_presets / "split_notmnist.toml").write_text("[finetune]\nlr = 0.01\n")
    monkeypatch.setattr(tune.Study, "propose", lambda self: {"lr": 1e-3})
    assert call(tmp_path, "--methods", "finetune", "--trials", 2) == 0
    assert ran[1:] == [(1e-2, [0, 1]), (1e-3, [1])]


def test_a_search_that_was_stopped_goes_on_as_if_it_was_not(tmp_path, invented, monkeypatch, capsys):
    options = ["--methods", "gvcl_film", "--trials", 14, "--seed", 3]
    assert call(tmp_path / "whole", *options) == 0
    assert len(invented) == 14
    undisturbed, told = tune.accuracy, []

    def disturbed(*args):
        told.append(1)
        if len(told) in (3, 12):
            signal.raise_signal(signal.SIGINT)
        if len(told) == 6:
            raise KeyboardInterrupt  # as good as a kill: the trial is lost
        return undisturbed(*args)

    monkeypatch.setattr(tune, "accuracy", disturbed)
    assert call(tmp_path / "parts", *options) == 130
    assert "goes on from there" in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        call(tmp_path / "parts", *options)
    (journal,) = tmp_path.glob("parts/studies/*/*/journal.jsonl")
    with journal.open("a") as file:
        file.write('{"op_code": 4, "wor')  # of a write that was cut short
    assert call(tmp_path / "parts", *options) == 130
    assert call(tmp_path / "parts", *options) == 0
    whole, parts = studies(tmp_path / "whole")["gvcl_film"], studies(tmp_path / "parts")["gvcl_film"]
    assert parts == whole and len({str(trial["settings"]) for trial in whole["trials"]}) == 14
    assert all(json.loads(line) for line in journal.read_text().splitlines())  # nothing but JSON
    assert call(tmp_path / "other", *options[:-1], 4) == 0
    assert studies(tmp_path / "other")["gvcl_film"]["trials"][1:] != whole["trials"][1:]


def test_every_method_has_as_many_trials(tmp_path, invented, capsys):
    assert call(tmp_path, "--methods", "finetune", "--trials", 9) == 0
    capsys.readouterr()
    assert call(tmp_path, "--methods", "finetune", "claw", "ewc", "--trials", 5) == 0
    made = {name: len(study["trials"]) for name, study in studies(tmp_path).items()}
    assert made == {"finetune": 9, "claw": 5, "ewc": 5}
    # the four more that finetune has from before do not count
    first = max(trial["value"] for trial in studies(tmp_path)["finetune"]["trials"][:5])
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("finetune"))
    assert row.split()[2:] == [f"{100 * first:.2f}", f"{100 * math.exp(-0.5 / 9):.2f}", "5", "0"]


def test_a_smaller_budget_is_the_same_for_all_and_named_everywhere(tmp_path, data_dir, no_presets, capsys):
    preset = no_presets / "split_notmnist.toml"
    preset.write_text("[finetune]\nlr = 1e-8  # bad\n")
    reduced = ["--epochs", 3, "--batch-size", 8, "--tasks", 2, "--replicates", 1, "--trials", 3, "--data-dir", data_dir]
    assert call(tmp_path / "runs", *reduced, "--methods", "finetune", "ewc", "--write-presets") == 0
    words = "first 2 tasks, 3 epochs, batches of 8"
    budget = {"tasks": 2, "epochs": 3.0, "batch_size": 8, "reduced": words}
    found = studies(tmp_path / "runs")
    assert [found[name]["budget"] for name in ("finetune", "ewc")] == [{"split_notmnist": budget}] * 2
    records = [json.loads(path.read_text()) for path in (tmp_path / "runs/split_notmnist").rglob("results.json")]
    assert {record["tasks"] for record in records} == {2}
    assert f"trials with {words}" in " ".join(capsys.readouterr().out.split())
    changed = [name for name, study in found.items() if study["best"]]
    assert "finetune" in changed and preset.read_text().count(f", with {words}, study") == len(changed)


def test_a_space_smaller_than_the_trials_is_tried_out(tmp_path, invented, monkeypatch, capsys):
    monkeypatch.setattr(spaces, "FILE", tmp_path / "spaces.toml")
    spaces.FILE.write_text("[ewc]\nlam = { choices = [1.0, 100.0, 1e4] }\nlr = { choices = [1e-3, 1e-2] }\n")
    assert call(tmp_path, "--methods", "ewc", "--trials", 20) == 0
    tried = [(trial["settings"]["lam"], trial["settings"]["lr"]) for trial in studies(tmp_path)["ewc"]["trials"]]
    assert tried[0] == (100.0, 1e-3)
    assert sorted(tried) == [(lam, lr) for lam in (1.0, 100.0, 1e4) for lr in (1e-3, 1e-2)]
    assert "6 (all)" in capsys.readouterr().out


def test_a_search_comes_nearer_to_the_optimum(tmp_path, invented, no_presets):
    """After ten random trials, the sampler's are better on average, and the best is far from the bad preset."""
    (no_presets / "split_notmnist.toml").write_text("[ewc]\nlam = 1e6\nlr = 1e-4\n")
    assert call(tmp_path, "--methods", "ewc", "--trials", 25) == 0
    values = [trial["value"] for trial in studies(tmp_path)["ewc"]["trials"]]
    assert np.mean(values[11:]) > np.mean(values[1:11]) and max(values) > values[0] + 0.2


def test_a_preset_outside_the_space_is_trial_0_all_the_same(tmp_path, invented, no_presets):
    (no_presets / "split_notmnist.toml").write_text("[ewc]\nlam = 1e9\nfisher_examples = 7\n")
    assert call(tmp_path, "--methods", "ewc", "--trials", 14) == 0
    settings = [trial["settings"] for trial in studies(tmp_path)["ewc"]["trials"]]
    assert settings[0]["lam"] == 1e9 and all(0.1 <= each["lam"] <= 1e6 for each in settings[1:])
    assert {each["fisher_examples"] for each in settings} == {7}  # the preset's, as it is not searched


def test_a_trial_that_diverges_has_the_value_0(tmp_path, small, monkeypatch, capsys):
    original = job.Job.run

    def run(self, *args, **options):
        if self.settings.lr > 1e-3:
            raise Diverged("the ELBO is nan")
        return original(self, *args, **options)

    monkeypatch.setattr(job.Job, "run", run)
    assert call(tmp_path, "--methods", "finetune", "--trials", 6, "--replicates", 1) == 0
    trials = studies(tmp_path)["finetune"]["trials"]
    failed = [trial["settings"]["lr"] > 1e-3 for trial in trials]
    assert 0 < sum(failed) < 6
    for trial, diverged in zip(trials, failed, strict=True):
        assert (trial["value"] == 0.0) == diverged and trial["failure"] == ("the ELBO is nan" if diverged else None)
    assert f" 6 {sum(failed):8d}" in capsys.readouterr().out


def test_benchmarks_can_share_one_setting(tmp_path, invented, no_presets, capsys):
    """It is sought where the mean over benchmarks is best, from the defaults, and no preset is touched."""
    preset = no_presets / "split_fashion.toml"
    preset.write_text("[claw]\nbeta = 0.9\nwarm = 0.0\n")
    benches = ["split_notmnist", "split_fashion"]
    assert call(tmp_path, "--methods", "claw", "--trials", 12, "--write-presets", "--joint", *benches) == 0
    assert [bench for bench, _ in invented] == benches * 12
    assert all(one == other for (_, one), (_, other) in zip(invented[::2], invented[1::2], strict=True))
    assert invented[0][1] == METHODS["claw"].settings()
    (study,) = studies(tmp_path).values()
    for trial in study["trials"]:
        assert trial["value"] == pytest.approx(np.mean([trial["accuracies"][bench] for bench in benches]))
    best = study["trials"][study["best"]]
    assert study["best"] > 0 and best["value"] == max(trial["value"] for trial in study["trials"])
    said = capsys.readouterr().out
    assert f"pyroclaw.models.claw: beta = {best['settings']['beta']}, lam = {best['settings']['lam']}" in said
    assert "presets/split_fashion.toml has a table [claw]" in said
    assert preset.read_text() == "[claw]\nbeta = 0.9\nwarm = 0.0\n" and list(no_presets.iterdir()) == [preset]


def test_nothing_is_written_where_the_preset_is_best(tmp_path, invented, no_presets, capsys):
    assert call(tmp_path, "--methods", "ewc", "--trials", 1, "--write-presets") == 0
    assert not list(no_presets.iterdir()) and "nothing is to be changed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--methods", "clav"], "did you mean claw"),
        (["--methods"], "--methods names none"),
        (["--bench", "split_notmist"], "did you mean split_notmnist"),
        (["--joint", "split_mnist", "split_fashon"], "did you mean split_fashion"),
        (["--joint", "split_mnist", "split_mnist"], "twice"),
        (["--trials", 0], "--trials is 0"),
        (["--replicates", 0], "--replicates is 0"),
    ],
)
def test_bad_input_is_one_sentence(arguments, says, tmp_path, small, capsys):
    assert call(tmp_path, *arguments) == 2
    error = capsys.readouterr().err
    assert says in error and error.startswith("tune: ") and error.count("\n") == 1


def test_a_method_without_a_space_is_one_sentence(tmp_path, small, monkeypatch, capsys):
    monkeypatch.setattr(spaces, "FILE", tmp_path / "spaces.toml")
    spaces.FILE.write_text("[ewc]\nlam = { choices = [1.0] }\n")
    assert call(tmp_path, "--methods", "ewc", "vcl") == 2
    error = capsys.readouterr().err
    assert "add a table [vcl]" in error and error.count("\n") == 1 and not list(tmp_path.rglob("study.json"))


def test_a_stand_in_makes_no_preset(tmp_path, toy, monkeypatch, capsys):
    monkeypatch.setattr(job.Common, "benchmark", lambda self, say: dataclasses.replace(toy, standin=True))
    assert call(tmp_path, "--methods", "finetune", "--write-presets") == 2
    assert "stand-in" in capsys.readouterr().err and not list(tmp_path.rglob("study.json"))


def test_optuna_is_asked_for_where_it_is_missing(tmp_path, small, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert call(tmp_path, "--methods", "finetune") == 2
    assert "pyroclaw[search]" in capsys.readouterr().err


def test_two_searches_do_not_share_a_study(tmp_path, invented, capsys):
    arguments = [tmp_path, "--methods", "ewc", "--trials", 2]
    assert call(*arguments) == 0
    (study,) = tmp_path.glob("studies/*/*")
    with FileLock(study / ".lock"):
        assert call(*arguments[:-1], 3) == 2
    assert "another process" in capsys.readouterr().err
    (study / "journal.jsonl").write_text("no\njournal\n")
    assert call(*arguments) == 2
    assert "delete it" in capsys.readouterr().err
