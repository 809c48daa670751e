"""The picture of one run: average accuracy, what is remembered of each task, and the ELBO."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from pyroclaw import metrics

COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000"]  # Okabe & Ito: for all eyes
STYLES = ["-", "--", "-.", ":"]


def draw(path: Path, title: str, matrix: np.ndarray, elbos: Sequence[Sequence[float]], names: Sequence[str]) -> None:
    """Write the figure as PNG: three panels from the accuracy matrix [T, T, R] and the ELBO of each task."""
    figure, (average, memory, elbo) = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    tasks = np.arange(1, len(matrix) + 1)
    accuracy = 100 * metrics.average_accuracy(matrix)
    error = accuracy.std(axis=1, ddof=1) / np.sqrt(accuracy.shape[1]) if accuracy.shape[1] > 1 else None
    average.errorbar(tasks, accuracy.mean(axis=1), yerr=error, marker="o", capsize=3, color=COLOURS[0])
    average.set(title="all tasks so far", xlabel="tasks learned", ylabel="average test accuracy (%)")
    for task, name in enumerate(names[: len(matrix)]):
        kept = 100 * metrics.retention(matrix, task).mean(axis=1)
        style = {"color": COLOURS[task % 7], "linestyle": STYLES[task // 7 % 4]}
        label = name if len(names) <= 10 else None
        memory.plot(tasks[task:], kept, marker="o", markersize=4, label=label, **style)
    memory.set(title="what is remembered of each task", xlabel="tasks learned", ylabel="test accuracy (%)")
    if len(names) <= 10:
        memory.legend(fontsize="small", ncols=2)
    start = 0
    for task, trace in enumerate(elbos):
        elbo.plot(np.arange(start, start + len(trace)), trace, color=COLOURS[task % 7], linewidth=1)
        start += len(trace)
    elbo.set(title="ELBO per example, task by task", xlabel="window of steps", ylabel="nats")
    for axis in (average, memory):
        axis.set_xticks(tasks if len(tasks) <= 10 else tasks[:: len(tasks) // 10])
        axis.grid(alpha=0.3)
    figure.suptitle(title)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)
