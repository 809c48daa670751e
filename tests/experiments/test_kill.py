"""Runs that are really killed, at random moments, and go on: 22 kills, between tasks, inside them, in a write."""

import json
import multiprocessing
import random
import shutil
import signal
import time

import pytest

from pyroclaw.experiments import run
from pyroclaw.experiments.records import FINISHED

SERVER = multiprocessing.get_context("forkserver")  # imports once, then each process starts in no time
LATE = ["torch._dynamo", "torchmetrics.functional.classification"]  # imported in the middle of a run
SERVER.set_forkserver_preload(["pyroclaw.experiments.run", *LATE])
BESIDES = ("train_seconds", "peak_memory_mb", "environment")  # all that may differ
KILLS = {"claw": 8, "vcl_coreset": 5, "pnc": 3, "ltg": 3, "rcl": 3}
OPTIONS = {"rcl": ("--set", "trials=2", "--set", "choices=3"), "vcl_coreset": ("--set", "points=6")}


def arguments(data_dir, out, method, *more):
    common = ("--method", method, "--replicates", "2", "--epochs", "3", "--batch-size", "12", "--samples", "0")
    place = ("--bench", "split_notmnist", "--data-dir", str(data_dir), "--out", str(out))
    return [*place, *common, "--threads", "1", "--checkpoint", "0", "--quiet", *OPTIONS.get(method, ()), *more]


def process(arguments):
    made = SERVER.Process(target=run.main, args=(arguments,))
    made.start()
    return made


def wait_for_a_step(out, running):
    """The random moment is to be one in which something happens, however slow the machine."""
    began = time.time()
    while running.exitcode is None and not any(last_change(path) > began for path in out.rglob("checkpoint-*/*/*")):
        running.join(0.01)


def last_change(path):
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # an old checkpoint, just removed
        return 0.0


def records(out):
    found = {path.parent.name: json.loads(path.read_text()) for path in out.rglob(FINISHED)}
    return {seed: {key: value for key, value in one.items() if key not in BESIDES} for seed, one in found.items()}


@pytest.mark.parametrize("method", KILLS)
def test_a_killed_run_goes_on_to_the_same_bits(data_dir, tmp_path, method):
    whole = process(arguments(data_dir, tmp_path / "whole", method))
    rng, kills, torn, inside = random.Random(method), 0, 0, 0
    out = tmp_path / "killed"
    while kills < KILLS[method]:
        killed = process(arguments(data_dir, out, method, "--resume"))
        wait_for_a_step(out, killed)
        killed.join(rng.uniform(0.0, 0.5))
        if killed.exitcode is None:
            killed.kill()
            killed.join()
            assert killed.exitcode == -signal.SIGKILL
            kills += 1
            torn += len(list(out.rglob(".state-*"))) > 0  # a file that was being written
            inside += len(list(out.rglob("position-*/*.json"))) > 0
        else:
            assert killed.exitcode == 0
            shutil.rmtree(out)  # a fast machine: it got to the end
    last = process(arguments(data_dir, out, method, "--resume"))
    last.join()
    whole.join()
    print(f"{kills} kills, {inside} of them inside a task, {torn} in a write")
    assert (last.exitcode, whole.exitcode) == (0, 0)
    assert records(out) == records(tmp_path / "whole") and len(records(out)) == 2
    assert not list(out.rglob("checkpoint-*")) and not list(out.rglob("unfinished.json"))
