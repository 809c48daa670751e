"""Repetitions that are on record, and those that are not: only the missing ones are run.

A record counts if it is finished, and has forward transfer if that is asked for; in the folder of runs, or among the
results that come with pyroclaw. So do, for a run with --tasks, the first tasks of a longer one. While the checkpoints
of its plate are there, the plate is not done: a kill may have come between the records of two repetitions, and all of
them must go on together to end with the same bits.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyroclaw.experiments.console import Watcher
from pyroclaw.experiments.job import Common, Job
from pyroclaw.experiments.records import checkpoints, fingerprint, read, summarise
from pyroclaw.experiments.shorter import begins_with, cut

RESULTS = Path(__file__).parent / "results"


def summaries(jobs: Mapping[str, Job], common: Common, view: Watcher, stop: Callable[[], bool]) -> dict[str, Any]:
    """The summary of each job, by name; how much is to be run is said before any of it is."""
    seeds = common.seeds()
    missing = {name: len(seeds) - len(known(job, common, seeds)) for name, job in jobs.items()}
    for name, job in jobs.items():
        to_run = f"{missing[name]} of {len(seeds)} to run, {job.results.folder.relative_to(common.out)}"
        view.say(f"{name}: {to_run}" if missing[name] else f"{name}: {len(seeds)} on record")
    found = {}
    for name, job in jobs.items():
        if missing[name]:
            view.say(f"{name} learns")
        found[name] = summarise(complete(job, common, seeds, view, stop))
    return found


def complete(
    job: Job, common: Common, seeds: Sequence[int], view: Watcher, stop: Callable[[], bool]
) -> list[dict[str, Any]]:
    """The records of a job's repetitions, of which only the missing ones are run."""
    found = known(job, common, seeds)
    missing = [seed for seed in seeds if seed not in found]
    if missing:
        job.run(missing, view, stop, common.samples, common.transfer)
        found |= {record["seed"]: record for record in read(job.results.folder, missing)}
    return [found[seed] for seed in seeds]


def known(job: Job, common: Common, seeds: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The records that need not be made, by seed."""
    # a setting's folder may have another name, from when the preset was another, but has the same fingerprint
    config, of_method = job.results.config, job.results.folder.parent.relative_to(common.out)
    same = f"*-{fingerprint(config)}"
    places = [place for out in (RESULTS, common.out) for place in sorted((out / of_method).glob(same))]
    found = [(place, record) for place in places for record in read(place, seeds)]
    usable = {record["seed"]: record for place, record in found if _usable(place, record, common.transfer)}
    if "tasks" not in config or common.transfer:
        return usable
    return _of_longer(config, [out / of_method for out in (RESULTS, common.out)], seeds) | usable


def _of_longer(config: Mapping[str, Any], folders: Sequence[Path], seeds: Sequence[int]) -> dict[int, dict[str, Any]]:
    """What the first tasks of longer runs were, by seed."""
    places = [place for folder in folders for place in sorted(folder.glob("*"))]
    found = [(place, record) for place in places for record in read(place, seeds)]
    return {
        record["seed"]: cut(record, config["tasks"])
        for place, record in found
        if begins_with(record["config"], config) and _usable(place, record, transfer=False)
    }


def _usable(place: Path, record: dict[str, Any], transfer: bool) -> bool:
    finished = record["tasks_finished"] == record["tasks"] and not checkpoints(place, record["plate"]).exists()
    return finished and (not transfer or bool(record["forward_transfer"]))
