"""Sweeps in this process and on a real Ray, which one instance serves: the same bits, whatever is killed."""

import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from pyroclaw.experiments import cluster, job, records, sweep
from pyroclaw.experiments.missing import RESULTS
from pyroclaw.inference.svi import Diverged

BESIDES = ("train_seconds", "peak_memory_mb", "environment")  # all that may differ
ENGINES = ("process", "ray")
LONG = "30"  # epochs that leave time to be stopped, on a fast machine too


@pytest.fixture(scope="module")
def ray():
    """Ray on this machine; it leaves neither processes nor files."""
    pytest.importorskip("ray")
    with (
        tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("RAY_TMPDIR", folder)  # a short path, since Ray puts sockets there
        patch.setenv("HOME", f"{folder}/home")
        patch.setenv("RAY_worker_niceness", "0")  # else a busy machine starves them
        with cluster.connected(None) as connection:
            yield folder
            assert processes(folder) != []
        assert not connection.is_initialized()
        deadline = time.monotonic() + 60
        while processes(folder) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert processes(folder) == [] and not Path(folder, "home", ".ray").exists()


def processes(folder):
    """Those of the Ray that keeps its files in a folder: by command, or by a parent's."""
    commands, parents = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            commands[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
    mine = {pid for pid, command in commands.items() if folder in command}
    return sorted((pid, commands[pid]) for pid in commands if pid in mine or parents.get(pid) in mine)


def workers(folder):
    return [pid for pid, command in processes(folder) if "learn_there" in command]


def arguments(data_dir, out, *more):
    budget = ("--tasks", "2", "--epochs", "1", "--batch-size", "12", "--replicates", "2", "--samples", "0")
    return ["--data-dir", str(data_dir), "--out", str(out), *budget, "--quiet", *more]


@pytest.fixture(scope="module")
def whole(data_dir, tmp_path_factory):
    """What a sweep that nobody disturbs finds, by method."""
    out = tmp_path_factory.mktemp("whole")
    assert sweep.main(arguments(data_dir, out, "--methods", "finetune", "vcl", "--epochs", LONG)) == 0
    return {method: found(out, method) for method in ("finetune", "vcl")}


def found(out, method="*"):
    """By path: records without what may differ, and configurations."""
    paths = {path.parent.relative_to(out): path.parent for path in out.glob(f"*/{method}/*/*/{records.FINISHED}")}
    return {
        name: [{key: value for key, value in one.items() if key not in BESIDES} for one in records.read(path.parent)]
        for name, path in paths.items()
    }


def when(happened, act):
    """Do something in the middle of a sweep, from another thread."""

    def wait():
        while not happened():
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def in_task(number, out):
    """A step of the task is in a checkpoint."""
    return lambda: any(out.rglob(f"checkpoint-*/position-{number}/state-*.json"))


def test_both_engines_give_the_same_bits_and_finished_records_are_left_alone(ray, data_dir, tmp_path, capsys):
    shown = {}
    for engine in ENGINES:
        call = arguments(data_dir, tmp_path / engine, "--methods", "claw", "ltg", "--engine", engine)
        assert sweep.main(call) == 0
        shown[engine] = capsys.readouterr().out
    assert found(tmp_path / "ray") == found(tmp_path / "process")
    assert len(found(tmp_path / "ray")) == 4  # a plate of two with CLAW, each alone with LTG
    plates = {tuple(one["plate"]) for each in found(tmp_path / "ray").values() for one in each}
    assert plates == {(0, 1), (0,), (1,)}
    assert shown["ray"] == shown["process"] and shown["ray"].count("[2]") == 2
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert sweep.main(arguments(data_dir, tmp_path / "ray", "--methods", "claw", "ltg", "--engine", "ray")) == 0
    assert capsys.readouterr().out == shown["ray"]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == before


@pytest.mark.parametrize("engine", ENGINES)
def test_after_ctrl_c_the_same_command_goes_on(ray, data_dir, tmp_path, capsys, whole, engine):
    out, call = tmp_path, ("--methods", "finetune", "vcl", "--epochs", LONG)
    stopper = when(in_task(1, out), lambda: os.kill(os.getpid(), signal.SIGINT))
    assert sweep.main(arguments(data_dir, out, *call, "--engine", engine, "--checkpoint", "0")) == 130
    stopper.join()
    error = capsys.readouterr().err
    assert "of 2 runs are finished, the same command goes on" in error and error.count("\n") == 1
    assert len(found(out)) < 4 and list(out.rglob("checkpoint-*"))
    assert sweep.main(arguments(data_dir, out, *call, "--engine", engine)) == 0
    assert found(out) == whole["finetune"] | whole["vcl"] and len(found(out)) == 4


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_that_fails_is_named_and_leaves_the_others_alone(ray, data_dir, tmp_path, capsys, engine):
    (tmp_path / "split_notmnist").mkdir()
    (tmp_path / "split_notmnist" / "ewc").write_text("in the way")
    call = ("--methods", "ewc", "finetune", "--engine", engine)
    assert sweep.main(arguments(data_dir, tmp_path, *call)) == 1
    shown = capsys.readouterr().out
    assert "failed: ewc on split_notmnist, seeds 0 1: --out: the record" in shown and "name another folder" in shown
    assert "– [0 of 2]" in shown and len(found(tmp_path)) == 2
    (tmp_path / "split_notmnist" / "ewc").unlink()
    assert sweep.main(arguments(data_dir, tmp_path, *call)) == 0
    assert len(found(tmp_path)) == 4 and "failed" not in capsys.readouterr().out


def test_a_killed_worker_loses_nothing(ray, data_dir, tmp_path, capsys, whole):
    call = ("--methods", "vcl", "--epochs", LONG, "--checkpoint", "0")
    out, killed = tmp_path, []

    def kill():
        killed.extend(workers(ray))
        os.kill(killed[0], signal.SIGKILL)

    killer = when(in_task(2, out), kill)
    talking = [word for word in arguments(data_dir, out, *call, "--engine", "ray") if word != "--quiet"]
    assert sweep.main(talking) == 0
    killer.join()
    assert len(killed) == 1 and not Path(f"/proc/{killed[0]}").exists()
    assert "vcl on split_notmnist, seeds 0 1: going on after task 1 of 2" in capsys.readouterr().out
    assert found(out) == whole["vcl"] and len(found(out)) == 2
    assert not list(out.rglob("checkpoint-*"))


def test_a_run_whose_worker_is_lost_too_often_is_named(ray, data_dir, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cluster, "RETRIES", 0)
    killer = when(in_task(1, tmp_path), lambda: os.kill(workers(ray)[0], signal.SIGKILL))
    call = ("--methods", "vcl", "--engine", "ray", "--epochs", LONG, "--checkpoint", "0")
    assert sweep.main(arguments(data_dir, tmp_path, *call)) == 1
    killer.join()
    assert "failed: vcl on split_notmnist, seeds 0 1: Ray gave it up (WorkerCrashed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "sentence"), [(Diverged("the ELBO is nan"), ": the ELBO is nan"), (KeyError("w"), "KeyError: 'w'")]
)
def test_whatever_a_run_raises_the_others_go_on(data_dir, tmp_path, capsys, monkeypatch, error, sentence):
    original = job.Job.run

    def run(self, *args):
        if self.results.config["method"] == "ewc":
            raise error
        return original(self, *args)

    monkeypatch.setattr(job.Job, "run", run)
    assert sweep.main(arguments(data_dir, tmp_path, "--methods", "ewc", "finetune")) == 1
    shown = capsys.readouterr().out
    assert sentence in shown and len(found(tmp_path)) == 2


def test_records_that_come_with_pyroclaw_are_not_made_again(data_dir, tmp_path, monkeypatch, capsys):
    assert sweep.main(arguments(data_dir, tmp_path / "results", "--methods", "finetune")) == 0
    first = capsys.readouterr().out
    assert RESULTS.name == "results"
    monkeypatch.setattr("pyroclaw.experiments.missing.RESULTS", tmp_path / "results")
    assert sweep.main(arguments(data_dir, tmp_path / "none", "--methods", "finetune")) == 0
    assert capsys.readouterr().out == first and not (tmp_path / "none").exists()


def test_records_of_a_machine_with_a_folder_of_its_own_come_back(data_dir, tmp_path):
    assert sweep.main(arguments(data_dir, tmp_path / "there", "--methods", "finetune")) == 0
    (folder,) = {path.parents[1] for path in (tmp_path / "there").rglob(records.FINISHED)}
    here = tmp_path / "here" / folder.name
    records.put(here, records.read(folder))
    for path in (*folder.rglob("config.json"), *folder.rglob(records.FINISHED)):
        assert (here / path.relative_to(folder)).read_bytes() == path.read_bytes()


def test_a_plate_with_checkpoints_is_not_done(data_dir, tmp_path, capsys):
    """A kill between two records of a plate: both are made again, together."""
    call = arguments(data_dir, tmp_path, "--methods", "finetune")
    assert sweep.main(call) == 0
    before = found(tmp_path)
    (folder,) = {path.parents[1] for path in tmp_path.rglob(records.FINISHED)}
    (folder / "seed1" / records.FINISHED).rename(folder / "seed1" / records.UNFINISHED)
    (folder / "checkpoint-0-1").mkdir()
    assert sweep.main(call) == 0
    assert found(tmp_path) == before


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (["--benches", "split_notmist"], "did you mean split_notmnist"),
        (["--methods", "clav"], "did you mean claw"),
        (["--engine", "rai"], "did you mean ray"),
        (["--cpus-per-run", "0"], "--cpus-per-run is 0"),
        (["--gpus-per-run", "2"], "a run uses one at most"),
        (["--engine", "ray", "--cpus-per-run", "9999"], "no machine of the cluster has --cpus-per-run 9999"),
        (["--engine", "ray", "--address", "localhost:1"], "--address localhost:1 does not answer"),
        (["--engine", "ray", "--address", "ray://localhost"], "not of the form HOST:PORT"),
        (["--address", "localhost:6379"], "--address is for --engine ray"),
        (["--tasks", "9"], "split_notmnist has 5"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(ray, data_dir, tmp_path, capsys, wrong, sentence):
    assert sweep.main(arguments(data_dir, tmp_path / "runs", *wrong)) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_without_ray_it_is_said_how_to_get_it(data_dir, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert sweep.main(arguments(data_dir, tmp_path, "--engine", "ray")) == 2
    assert 'pip install "pyroclaw[cluster]"' in capsys.readouterr().err
