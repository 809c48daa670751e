"""A learned method as arviz's `InferenceData`: what a Bayesian looks at, with names on every axis.

    posterior        α ~ N(p, p(1 - p)) and the gain 1 + bα of each task and unit (CLAW); the root mean square of the
                     weights of each layer; all weights on request
    constant_data    the points p, b and s of each task and unit
    svi              the ELBO of each step
    log_likelihood   log p(y | x, w_s) of examples that were trained on, with observed_data their labels
    posterior_predictive, prior_predictive    labels drawn for them; the prior's for the last task only
    predictions      mean probabilities of held-out examples, with predictions_constant_data their labels

A chain is a replicate. Units have the coordinates `layer` and `neuron`, examples the coordinate `task`. By local
reparameterisation each example of a draw has weights of its own, which leaves the law of each single example as it is,
and leave-one-out cross-validation needs no more than that. It takes examples that the posterior has seen, hence the
training part.

The prior is that of the last task. An improper one (log-scale, flat) has no samples: the law of initial weights,
N(0, 2 / fan-in), stands in for it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyroclaw.inference.adaptation import unit_counts
from pyroclaw.streams import Streams


class Examples(NamedTuple):
    """Of one task: inputs [R, n, ...] and labels [R, n]."""

    x: Tensor
    y: Tensor


def datasets(
    method: Any,
    tasks: Sequence[str],
    elbo: Sequence[Tensor],
    streams: Streams,
    fitted: Mapping[int, Examples] | None = None,
    held_out: Mapping[int, Examples] | None = None,
    draws: int = 100,
    weights: bool = False,
) -> dict[str, Any]:
    """The groups as xarray's `Dataset`s of all replicates; :func:`inference_data` makes one of them.

    :param fitted: examples that were trained on, by task number; without them there is no log-likelihood.
    :param held_out: other examples, whose probabilities are predicted.
    """
    from xarray import Dataset  # takes seconds to import

    seeds = list(streams.seeds)
    names = {"chain": ("chain", seeds), "draw": ("draw", np.arange(draws)), "task": ("task", list(tasks))}
    groups: dict[str, tuple[dict, dict]] = {"svi": ({"elbo": (("chain", "task", "step"), _padded(elbo))}, names)}
    posterior, layers = _weights(method, streams, draws, weights)
    points: dict[str, Any] = {}
    units: dict[str, Any] = {}
    if hasattr(method, "adaptations"):
        adapted, points, units = _adaptation(method, streams, draws)
        posterior |= adapted
    groups["posterior"] = posterior, names | {"layer": ("layer", layers)} | units
    groups["constant_data"] = points, names | units
    for group, values in _fitted(method, fitted or {}, streams, draws).items():
        groups[group] = values, names | _which(tasks, fitted or {}, "example")
    if held_out:
        probability, labels = _predictions(method, held_out, streams, draws)
        groups["predictions"] = probability, names | _which(tasks, held_out, "held_out")
        groups["predictions_constant_data"] = labels, names | _which(tasks, held_out, "held_out")
    if fitted and (last := len(tasks) - 1) in fitted:
        groups["prior_predictive"] = _prior_predictive(method, last, fitted[last], streams, draws), names
    made = {}
    for group, (values, coords) in groups.items():
        used = {dim for dims, _ in values.values() for dim in dims}
        if values:
            made[group] = Dataset(values, {name: axis for name, axis in coords.items() if axis[0] in used})
    return made


def inference_data(groups: Mapping[str, Any], replicate: int | None = None) -> Any:
    """Of all replicates, which must have the same examples; or of one."""
    import arviz

    chosen = {name: one if replicate is None else one.isel(chain=[replicate]) for name, one in groups.items()}
    if "observed_data" in chosen:
        chosen["observed_data"] = chosen["observed_data"].isel(chain=0, drop=True)
    return arviz.InferenceData(**chosen)


def _padded(elbo: Sequence[Tensor]) -> np.ndarray:
    """Traces [steps, R] of the tasks as [R, tasks, longest]."""
    longest = max(len(trace) for trace in elbo)
    table = np.full((elbo[0].shape[1], len(elbo), longest), np.nan, np.float32)
    for t, trace in enumerate(elbo):
        table[:, t, : len(trace)] = trace.T.cpu().numpy()
    return table


def _which(tasks: Sequence[str], examples: Mapping[int, Examples], dim: str) -> dict[str, Any]:
    names = [tasks[t] for t, own in examples.items() for _ in range(own.y.shape[1])]
    return {dim: (dim, np.arange(len(names))), f"{dim}_task": (dim, names)}


# ---- what the posterior is made of -----------------------------------------------------------------------------------


def _weights(method: Any, streams: Streams, draws: int, everything: bool) -> tuple[dict[str, Any], list[str]]:
    """The root mean square [R, S, layers] of draws of each matrix that is held now; and, on request, the draws."""
    found: dict[str, list[np.ndarray]] = {}
    whole: dict[str, Any] = {}
    for name in method.weights.mean:
        law = method.weights.distribution(name)
        mean, scale = law.mean, law.variance.sqrt()
        drawn = [torch.addcmul(mean, scale, streams.normal(*mean.shape)) for _ in range(draws if mean.numel() else 0)]
        if drawn:
            found[name] = [one.square().flatten(1).mean(1).sqrt().cpu().numpy() for one in drawn]
        if everything and drawn:
            dims = ("chain", "draw", f"{name}_input", f"{name}_neuron")
            whole[name] = dims, torch.stack(drawn, 1).squeeze(2).cpu().numpy()
    rms = np.stack([np.stack(one, 1) for one in found.values()], axis=2)
    return {"weight_rms": (("chain", "draw", "layer"), rms)} | whole, list(found)


def _adaptation(method: Any, streams: Streams, draws: int) -> tuple[dict, dict, dict]:
    """α and the gain of each task and unit, the points they are made of, and which unit is which neuron."""
    p, b, s = (
        torch.stack(values, 1) for values in zip(*((one.p, one.b(), one.s) for one in method.adaptations), strict=True)
    )
    alpha = torch.stack([p + (p * (1 - p)).sqrt() * streams.normal(*p.shape) for _ in range(draws)], 1)
    counts = unit_counts(method.net, method.settings.adapt_input)
    layers = ["input", *(layer.name for layer in method.net.layers)]
    units = {
        "layer": ("unit", [name for name, count in zip(layers, counts, strict=True) for _ in range(count)]),
        "neuron": ("unit", [i for count in counts for i in range(count)]),
    }
    dims = "chain", "draw", "task", "unit"
    drawn = {"alpha": (dims, alpha.cpu().numpy()), "gain": (dims, (1 + b.unsqueeze(1) * alpha).cpu().numpy())}
    values = {"adaptation_probability": p, "adaptation": b, "max_adaptation": s, "gain_mean": 1 + b * p}
    points = {name: (("chain", "task", "unit"), value.cpu().numpy()) for name, value in values.items()}
    return drawn, points, {f"unit_{key}": value for key, value in units.items()}


# ---- examples --------------------------------------------------------------------------------------------------------


def _fitted(method: Any, examples: Mapping[int, Examples], streams: Streams, draws: int) -> dict[str, dict]:
    """Log-likelihoods of labels, and labels drawn, [R, S, examples of all tasks]."""
    if not examples:
        return {}
    likelihoods, drawn = [], []
    for task, (x, y) in examples.items():
        logs = [method.logits(task, x, streams).log_softmax(-1) for _ in range(draws)]
        likelihoods.append(torch.stack([one.gather(2, y.unsqueeze(2)).squeeze(2) for one in logs], 1))
        drawn.append(torch.stack([_draw(one.exp(), streams) for one in logs], 1))
    dims = "chain", "draw", "example"
    return {
        "log_likelihood": {"label": (dims, torch.cat(likelihoods, 2).cpu().numpy())},
        "posterior_predictive": {"label": (dims, torch.cat(drawn, 2).cpu().numpy())},
        "observed_data": {"label": (("chain", "example"), _labels(examples))},
    }


def _predictions(method: Any, examples: Mapping[int, Examples], streams: Streams, draws: int) -> tuple[dict, dict]:
    """Mean probabilities [R, examples, classes], 0 where a task has fewer classes; and the labels."""
    found = []
    for task, (x, _) in examples.items():
        found.append(sum(method.logits(task, x, streams).softmax(-1) for _ in range(draws)) / draws)
    classes = max(p.shape[2] for p in found)
    padded = torch.cat([torch.nn.functional.pad(p, (0, classes - p.shape[2])) for p in found], 1)
    labels = {"label": (("chain", "held_out"), _labels(examples))}
    return {"probability": (("chain", "held_out", "class"), padded.cpu().numpy())}, labels


def _prior_predictive(method: Any, task: int, examples: Examples, streams: Streams, draws: int) -> dict[str, Any]:
    """Labels [R, S, examples] that the prior of the last task draws for its examples."""
    matrices = {name: law.mean for name, law in method.posterior(task).items()}
    classes = method.logits(task, examples.x[:, :1]).shape[-1]
    head = method.head(task)
    if head not in matrices and not hasattr(method, "paths"):  # functions of features, which are N(0, I)
        matrices[head] = examples.x.new_zeros(len(streams), 1, method.net.features + 1, classes)
    drawn = []
    with torch.no_grad():
        for _ in range(draws):
            sample = {name: _prior_sample(method, name, matrix, streams) for name, matrix in matrices.items()}
            drawn.append(_draw(method.forward(examples.x, sample, task).softmax(-1), streams))
    return {"label": (("chain", "draw", "last_example"), torch.stack(drawn, 1).cpu().numpy())}


def _prior_sample(method: Any, name: str, like: Tensor, streams: Streams) -> Tensor:
    noise = streams.normal(*like.shape)
    prior = method.priors.get(name)
    if prior is None:
        return noise
    try:
        return prior.mean + prior.variance.sqrt() * noise
    except NotImplementedError:  # improper
        return noise * math.sqrt(2 / max(1, like.shape[2] - 1))


def _draw(p: Tensor, streams: Streams) -> Tensor:
    """A class of each example, from probabilities [R, n, classes]."""
    uniform = torch.special.ndtr(streams.normal(*p.shape[:2], 1))
    return (p.cumsum(-1) < uniform).sum(-1).clamp(max=p.shape[-1] - 1)


def _labels(examples: Mapping[int, Examples]) -> np.ndarray:
    return torch.cat([own.y for own in examples.values()], 1).cpu().numpy()
