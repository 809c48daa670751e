"""The posterior of each repetition of a run, as `seed0/posterior.nc`, and of all of them together.

A file has one chain, its repetition. Each repetition has its own split, so what an example is differs between them:
in :func:`read` chains stand side by side, but for the log-likelihood, where every example of every repetition is an
observation of its own and there is one chain of draws. Two methods are compared on equal observations, since they
share seeds and hence splits::

    arviz.compare({"claw": read(claw_folder), "vcl": read(vcl_folder)})
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pyroclaw.data.part import Part, Task
from pyroclaw.errors import InputError
from pyroclaw.inference.checkpoint import writing
from pyroclaw.inference.sequence import Learned
from pyroclaw.inference.to_arviz import Examples, datasets, inference_data
from pyroclaw.streams import Streams

FILE = "posterior.nc"
DRAWS = 100
EXAMPLES = 1000  # of all tasks together, of the training and of the test part
PER_OBSERVATION = ("log_likelihood", "observed_data", "posterior_predictive")


def write(
    folder: Path, method: Any, tasks: Sequence[Task], learned: Sequence[Learned], seeds: Sequence[int], device: Any
) -> None:
    """A file for each repetition, by atomic replace."""
    names = [task.name for task in tasks]
    each = max(10, EXAMPLES // len(tasks))
    fitted = {t: _examples(task.train, each) for t, task in enumerate(tasks)}
    held_out = {t: _examples(task.test, each) for t, task in enumerate(tasks)}
    elbo = [task.elbo for task in learned]
    streams = Streams(seeds, "posterior", device=device)
    groups = datasets(method, names, elbo, streams, fitted, held_out, DRAWS)
    for replicate, seed in enumerate(seeds):
        data = inference_data(groups, replicate)
        path = folder / f"seed{seed}" / FILE
        with writing(path):
            partly = path.with_name(f".{FILE}")
            data.to_netcdf(str(partly), engine="h5netcdf")
            os.replace(partly, path)


def _examples(part: Part, count: int) -> Examples:
    """The first ones of a part, which is in random order."""
    count = min(count, *part.sizes)
    return Examples(*part.batch(torch.arange(count, device=part.rows.device).expand(len(part.rows), -1)))


def read(folder: Path) -> Any:
    """All repetitions of a run's folder as one `InferenceData`."""
    import arviz
    import xarray

    paths = sorted(folder.glob(f"seed*/{FILE}"), key=lambda path: int(path.parent.name[4:]))
    if not paths:
        raise InputError(f"{folder} has no seed*/{FILE}: give the folder of a run that was made with --samples above 0")
    found = []
    for path in paths:
        try:
            found.append(arviz.from_netcdf(str(path), engine="h5netcdf"))
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{path} cannot be read ({error}): make the run again") from error
    groups = {}
    for group in found[0].groups():
        each = [data[group] for data in found]
        if group in PER_OBSERVATION:
            same = [one.assign_coords(chain=[0]) if "chain" in one.dims else one for one in each]
            joined = xarray.concat(same, dim="example")
            groups[group] = joined.assign_coords(example=range(joined.sizes["example"]))
        else:
            groups[group] = xarray.concat(each, dim="chain", join="outer", data_vars="all")
    return arviz.InferenceData(**groups)
