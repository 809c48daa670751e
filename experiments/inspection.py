"""The pictures a Bayesian would look at first, from the posteriors of a run.

adaptation.png    probability of adapting and gain of each layer, task by task (CLAW)
forest.png        intervals of each layer's mean gain in the last task, and of the size of its weights, by repetition
elbo.png          the ELBO of each repetition, task by task
calibration.png   confidence against accuracy on test examples, with the expected calibration error
"""

import sys
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import tyro

from pyroclaw.errors import InputError
from pyroclaw.experiments import posteriors
from pyroclaw.experiments.figure import COLOURS
from pyroclaw.inference.calibration import BINS

FAILED = 2


@dataclass(frozen=True)
class Options:
    """Plot the posterior of a run: adaptation, intervals, ELBO and calibration."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of a run, e.g. runs/split_notmnist/claw/default-1a2b3c4d."""
    out: Path | None = None
    """Folder for the PNG files; if not given, that of the run."""
    show: bool = False
    """Open the PNG files too."""


def main(argv: list[str] | None = None) -> int:
    options = tyro.cli(Options, args=argv, prog="inspect")
    try:
        for path in draw(posteriors.read(options.run), options.run.parent.name, options.out or options.run):
            print(path)
            if options.show:
                webbrowser.open(path.resolve().as_uri())
    except InputError as error:
        print(f"inspect: {error}", file=sys.stderr)
        return FAILED
    return 0


def draw(data: Any, title: str, out: Path) -> list[Path]:
    """Write the plots that the data have something for; where they are."""
    plots: dict[str, Callable[[Any], Any]] = {"forest": forest, "elbo": elbo, "calibration": calibration}
    if "constant_data" in data.groups():
        plots = {"adaptation": adaptation} | plots
    made = []
    for name, plot in plots.items():
        figure = plot(data)
        figure.suptitle(f"{title}: {TITLES[name]}")
        made.append(out / f"{name}.png")
        try:
            out.mkdir(parents=True, exist_ok=True)
            figure.savefig(made[-1], dpi=120, metadata={"Software": None})
        except OSError as error:
            raise InputError(f"--out: {made[-1]} cannot be written ({error.strerror}); name another folder") from error
        plt.close(figure)
    return made


TITLES = {
    "adaptation": "adaptation of each layer to each task, mean over neurons and repetitions",
    "forest": "94 % intervals of the posterior, a line a repetition",
    "elbo": "ELBO per example of each task, a line a repetition",
    "calibration": "calibration on test examples",
}


def adaptation(data: Any) -> Any:
    """Heat maps [layers, tasks] of p and of the mean gain 1 + bp."""
    figure, axes = plt.subplots(1, 2, figsize=(12, 3.6), layout="constrained")
    points = data.constant_data
    by_layer = [
        one.groupby("unit_layer").mean().mean("chain") for one in (points.adaptation_probability, points.gain_mean)
    ]
    layers = list(dict.fromkeys(points.unit_layer.values.tolist()))
    limits = [(0.0, 1.0), _around_one(by_layer[1].values)]
    names = ["probability of adapting", "gain"]
    for axis, values, name, (low, high), colours in zip(
        axes, by_layer, names, limits, ["viridis", "RdBu_r"], strict=True
    ):
        table = values.sel(unit_layer=layers).transpose("unit_layer", "task").values
        image = axis.imshow(table, aspect="auto", cmap=colours, vmin=low, vmax=high)
        figure.colorbar(image, ax=axis)
        axis.set(title=name, xlabel="task", yticks=range(len(layers)), yticklabels=layers)
        axis.set_xticks(range(table.shape[1]), points.task.values, rotation=30 if table.shape[1] > 6 else 0)
        if table.shape[1] <= 10:
            middle = (low + high) / 2
            for (i, j), value in np.ndenumerate(table):
                far = abs(value - middle) > 0.3 * (high - low)
                white = far if colours == "RdBu_r" else value < middle
                axis.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if white else "black")
    return figure


def _around_one(gains: np.ndarray) -> tuple[float, float]:
    reach = max(0.05, float(np.abs(gains - 1).max()))
    return 1 - reach, 1 + reach


def forest(data: Any) -> Any:
    """By arviz: the mean gain of each layer in the last task, and the root mean square of its weights."""
    import arviz

    posterior = data.posterior[["weight_rms"]].rename({"weight_rms": "size of weights"})
    names = ["size of weights"]
    if "gain" in data.posterior:
        layers = list(dict.fromkeys(data.posterior.unit_layer.values.tolist()))
        last = data.posterior.gain.isel(task=-1).groupby("unit_layer").mean().sel(unit_layer=layers)
        posterior, names = posterior.assign({"gain": last.rename({"unit_layer": "gain_layer"})}), ["gain", *names]
    rows = sum(int(np.prod(posterior[name].shape[2:])) for name in names)
    size = (5.5 * len(names) + 1, 1.5 + 0.07 * rows * posterior.sizes["chain"] + 0.1 * rows)
    figure, axes = plt.subplots(1, len(names), figsize=size, layout="constrained", squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        arviz.plot_forest(posterior, var_names=[name], combined=False, ax=axis, textsize=9, colors="cycle")
        axis.set_title(name if name != "gain" else "mean gain in the last task", fontsize=10)
    return figure


def elbo(data: Any) -> Any:
    """A panel a task: an improper prior moves the ELBO of the first one by a constant."""
    traces = data.svi.elbo.transpose("task", "chain", "step").values
    columns = min(5, len(traces))
    rows = -(-len(traces) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(2.6 * columns + 1, 2.2 * rows + 0.6), layout="constrained", squeeze=False
    )
    for axis in axes.flat[len(traces) :]:
        axis.axis("off")
    for task, (axis, name, own) in enumerate(zip(axes.flat, data.svi.task.values, traces, strict=False)):
        steps = int(np.isfinite(own).any(0).sum())
        axis.plot(np.arange(1, steps + 1), own[:, :steps].T, color=COLOURS[task % 7], linewidth=0.6, alpha=0.7)
        axis.set_title(name, fontsize=10)
        axis.grid(alpha=0.3)
    figure.supxlabel("step", fontsize=10)
    figure.supylabel("nats", fontsize=10)
    return figure


def calibration(data: Any) -> Any:
    """A reliability diagram: each bin's share of right answers against its mean confidence."""
    probability = data.predictions.probability.values
    right = probability.argmax(-1) == data.predictions_constant_data.label.values
    figure, (axis, counts) = plt.subplots(2, 1, figsize=(5, 6), layout="constrained", sharex=True, height_ratios=(3, 1))
    confidence, share, size = bins(probability.max(-1).ravel(), right.ravel())
    error = np.sqrt(share * (1 - share) / size)
    gap = float((size * np.abs(confidence - share)).sum() / size.sum())
    axis.plot([0, 1], [0, 1], color="grey", linestyle="--", linewidth=1, label="calibrated")
    axis.errorbar(confidence, share, yerr=error, marker="o", capsize=3, color=COLOURS[0], label="± a standard error")
    axis.set(ylabel="share of right answers", title=f"expected calibration error {100 * gap:.2f} %")
    axis.legend(loc="lower right")
    counts.bar(confidence, size, width=0.8 / BINS, color=COLOURS[0])
    counts.set(xlabel="mean confidence", ylabel="examples", xlim=(min(0.45, confidence.min() - 0.05), 1.02))
    return figure


def bins(confidence: np.ndarray, right: np.ndarray) -> Sequence[np.ndarray]:
    """Mean confidence, share of right answers and size of each bin of confidence that is not empty.

    >>> [one.tolist() for one in bins(np.array([0.51, 0.52, 0.99]), np.array([True, False, True]))]
    [[0.515, 0.99], [0.5, 1.0], [2, 1]]
    """
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    size = np.bincount(place, minlength=BINS)
    filled = size > 0
    means = [np.bincount(place, weights=one, minlength=BINS)[filled] / size[filled] for one in (confidence, right)]
    return *means, size[filled]
