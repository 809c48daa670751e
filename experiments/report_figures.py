"""The paper's figures 1 to 3, its ablations, and calibration from records, as SVG: methods over the number of tasks.

Each method has the same colour (of Okabe & Ito, for all eyes), line and marker everywhere, and its name stands at the
end of its line. The same records give the same bytes.
"""

import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from pyroclaw import metrics
from pyroclaw.experiments import paper
from pyroclaw.experiments.report_records import Bench, Setting, shown

STYLES: dict[str, tuple[str, Any, str]] = {  # colour, line, marker
    "claw": ("#D55E00", "-", "o"),
    "claw_coreset": ("#D55E00", "--", "h"),
    "vcl": ("#0072B2", "-", "s"),
    "vcl_coreset": ("#0072B2", "--", "D"),
    "ewc": ("#009E73", "-", "^"),
    "gvcl_film": ("#CC79A7", "-.", "p"),
    "pnc": ("#009E73", "--", "v"),
    "rcl": ("#56B4E9", "-", "P"),
    "frcl": ("#E69F00", "-", "X"),
    "ltg": ("#E69F00", "--", "*"),
    "finetune": ("#000000", ":", "x"),
    "independent": ("#000000", "--", "_"),
    "joint": ("#666666", "-.", "|"),
}
ABLATION_STYLES: dict[str, tuple[str, Any, str]] = {
    "max_adaptation-general": ("#0072B2", "--", "s"),
    "adaptation-always": ("#009E73", "-.", "^"),
    "adaptation-never": ("#000000", ":", "x"),
    "adapt_input-False": ("#CC79A7", "-", "v"),
    "gamma-tied": ("#E69F00", "--", "D"),
    "log_scale-fitted": ("#56B4E9", "-.", "P"),
    "coordinates-weights": ("#D55E00", ":", "<"),
    "coupling-0.0": ("#999999", "-", "*"),
    "average-0.0": ("#666666", "--", "d"),
    "lr_head-0.001": ("#882255", "-", "h"),
}
LOW = ("finetune", "gamma-tied")  # the floor and the lowest ablation would squeeze the others together
OTHER = ("#666666", (0, (5, 1)), ".")
LOOK: dict[Any, Any] = {
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "pyroclaw",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}
GAP = 0.064  # between two names at the right, as a share of the height
DODGE = 0.03  # of neighbouring methods, in tasks, so that error bars do not hide each other


def average(setting: Setting) -> NDArray:
    return metrics.average_accuracy(setting.matrix())


def retention(setting: Setting) -> NDArray:
    return metrics.retention(setting.matrix())


def transfer(setting: Setting) -> NDArray | None:
    measured = setting.summary["forward_transfer"]
    return None if measured is None else np.array(measured)


def error_of(setting: Setting, prediction: str) -> NDArray | None:
    """ECE, averaged over the tasks so far."""
    measured = setting.summary["calibration"].get(prediction)
    return None if measured is None else np.array([np.mean(row, axis=0) for row in measured["ece"]])


class Picture(NamedTuple):
    """What a figure shows."""

    title: str
    about: str
    curve: Callable[[Setting], NDArray | None]
    quantity: str = "test accuracy (%)"
    over: str = "tasks learned"


FIGURES = {
    "average": Picture("Figure 1: average accuracy", "Average test accuracy over the tasks so far", average),
    "retention": Picture(
        "Figure 2: retention of task 1", "Test accuracy on task 1 while others are learned", retention
    ),
    "transfer": Picture(
        "Figure 3: forward transfer",
        "Test accuracy on the last task, learned after k - 1 others",
        transfer,
        over="k",
    ),
    "ablations": Picture("Ablations", "Average test accuracy over the tasks so far, of CLAW without a part", average),
    "calibration": Picture(
        "Calibration with mean weights",
        "Expected calibration error on the tasks so far, mean weights",
        partial(error_of, prediction="mean weights"),
        "ECE (%), mean weights",
    ),
    "calibration-samples": Picture(
        "Calibration with samples",
        "Expected calibration error on the tasks so far, averaged over samples of the posterior",
        partial(error_of, prediction="samples"),
        "ECE (%), samples",
    ),
}


def shown_in(bench: Bench, figure: str) -> dict[str, Setting]:
    """Whose lines a figure has, by name."""
    if figure != "ablations":
        return {name: bench.main[name] for name in bench.methods() if name in bench.main}
    found = bench.ablations()
    return {"claw": bench.main["claw"]} | found if found and "claw" in bench.main else found


def curves(bench: Bench, figure: str) -> dict[str, NDArray]:
    """By name [T, R]; only those that were measured. Ablations are drawn over the seeds that all of them have."""
    settings = shown_in(bench, figure)
    found = {name: FIGURES[figure].curve(setting) for name, setting in settings.items()}
    lines = {name: values for name, values in found.items() if values is not None}
    if figure != "ablations":
        return lines
    seeds = {name: list(settings[name].summary["seeds"]) for name in lines}
    shared = sorted(set.intersection(*map(set, seeds.values()))) if seeds else []
    return {n: v[:, [seeds[n].index(seed) for seed in shared]] for n, v in lines.items()} if shared else {}


def describe(bench: Bench, figure: str, lines: Mapping[str, NDArray]) -> str:
    """The figure in words, for those who do not see it."""
    ends = ", ".join(f"{shown(name)} {100 * values[-1].mean():.1f} %" for name, values in lines.items())
    count = len(next(iter(lines.values())))
    return f"{FIGURES[figure].about}, on {bench.title}. At the end of {count} tasks: {ends}."


def draw(bench: Bench, figure: str, lines: Mapping[str, NDArray]) -> str:
    """SVG with a line for each method: mean and standard error over repetitions."""
    with matplotlib.rc_context(LOOK):
        picture = Figure(figsize=(5.4, 3.6))
        axes = picture.add_axes((0.111, 0.135, 0.505, 0.785))
        for place, (name, values) in enumerate(lines.items()):
            colour, style, marker = _look(name)
            means, errors = np.transpose([metrics.mean_and_error(100 * row) for row in values])
            tasks = 1 + np.arange(len(means)) + DODGE * (place - (len(lines) - 1) / 2)
            look: dict[str, Any] = {"color": colour, "linestyle": style, "marker": marker, "markersize": 5}
            axes.errorbar(tasks, means, yerr=errors, capsize=2, elinewidth=0.8, linewidth=1.5, **look)
        count = max(len(values) for values in lines.values())
        axes.set_xticks(np.arange(1, count + 1, max(1, count // 10)))
        axes.set_xlim(0.8, count + 0.2)
        axes.grid(alpha=0.3)
        axes.set_title(f"{bench.title}: {FIGURES[figure].quantity}", loc="left", x=-0.21, fontsize=10.5)
        axes.set(xlabel=FIGURES[figure].over, ylim=_range(lines))
        _names(axes, lines)
        file = io.StringIO()
        picture.savefig(file, format="svg", metadata=NO_METADATA)
    return file.getvalue()


def _look(name: str) -> tuple[str, Any, str]:
    return STYLES.get(name) or ABLATION_STYLES.get(name, OTHER)


def _range(lines: Mapping[str, NDArray]) -> tuple[float, float]:
    """Of all but the lowest, whose lines may leave the frame."""
    counted = [values for name, values in lines.items() if name not in LOW] or list(lines.values())
    summaries = [metrics.mean_and_error(100 * row) for values in counted for row in values if not np.isnan(row).any()]
    low, high = min(mean - error for mean, error in summaries), max(mean + error for mean, error in summaries)
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _names(axes: Axes, lines: Mapping[str, NDArray]) -> None:
    """A sample of each line, its name and last value, as near to the line's end as its neighbours allow.

    Where there are not as many repetitions as in the paper, their number is in square brackets.

    The nearest places (by squares) that are GAP apart are an isotonic regression of the ends, less the gaps below.
    """
    low, high = axes.get_ylim()
    ends = {name: 100 * float(values[-1].mean()) for name, values in lines.items()}
    names = sorted(ends, key=lambda name: ends[name])
    below = GAP * np.arange(len(names))
    heights = np.clip([(ends[name] - low) / (high - low) for name in names], 0, 1)
    places = isotonic_regression(heights - below, y_min=0.0, y_max=1.0 - below[-1]) + below
    fixed: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
    for name, height, place in zip(names, heights, places, strict=True):
        colour, style, marker = _look(name)
        axes.plot([1.0, 1.05], [height, place], color="#999999", linewidth=0.6, **fixed)
        axes.plot([1.06, 1.12, 1.18], [place] * 3, color=colour, linestyle=style, linewidth=1.5, **fixed)
        axes.plot([1.12], [place], color=colour, marker=marker, markersize=5, **fixed)
        beyond = " ↓" if ends[name] < low else " ↑" if ends[name] > high else ""
        count = lines[name].shape[1]
        fewer = f" [{count}]" if count != paper.REPETITIONS else ""
        text = f"{shown(name).partition(' (')[0]} {ends[name]:.1f}{fewer}{beyond}"
        axes.text(1.2, place, text, transform=axes.transAxes, verticalalignment="center", fontsize=8.5)
