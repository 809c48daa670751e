"""A learner for your own tasks: they arrive one at a time, with new classes, and are not kept.

>>> import numpy as np
>>> from pyroclaw import Learner
>>> rng = np.random.default_rng(0)
>>> learner = Learner("claw", net=(20,), epochs=30, batch_size=32)
>>> for name, labels in {"birds": (3, 7), "fish": (1, 5, 6)}.items():
...     y = rng.choice(labels, 200)
...     x = (rng.normal(size=(200, 8)) * 0.3 + np.eye(8)[y] * 3).astype("float32")
...     report = learner.learn((x, y), name=name)
>>> learner.tasks
{'birds': [3, 7], 'fish': [1, 5, 6]}
>>> bool(np.mean(learner.predict(x, task="fish") == y) > 0.9)
True
>>> learner.predict_proba(x[:2], task="fish").shape
(2, 3)
>>> learner.uncertainty(x[:2], task="fish").total.shape
(2,)
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from pyroclaw.data.benchmark import Heads, NetPreset
from pyroclaw.data.benchmarks import as_tensor
from pyroclaw.data.own import check_net, checked, kind
from pyroclaw.errors import InputError, choose
from pyroclaw.inference.evaluate import accuracy
from pyroclaw.inference.method import Budget, Training, copied
from pyroclaw.inference.to_arviz import Examples, datasets, inference_data
from pyroclaw.learner.device import find_device
from pyroclaw.learner.folder import load, save
from pyroclaw.learner.tasks import alike, inputs, make_task, pair, places
from pyroclaw.learner.uncertainty import Uncertainty, decompose, sampled
from pyroclaw.nets import make_net
from pyroclaw.ranges import in_range
from pyroclaw.streams import Streams


class Report(NamedTuple):
    """What is known once a task is learned."""

    task: str
    labels: list[int]
    validation: float  # accuracy on what was set aside, or on the training data if nothing was
    elbo: np.ndarray  # [steps, replicates] per example
    summary: dict  # what the method has to say


def _methods() -> Mapping[str, Any]:
    """The registry of methods, found by name at run time: no module of this package imports a method."""
    return import_module("pyroclaw.models").METHODS


class Learner:
    """Any of the methods, for tasks that arrive one at a time.

    :param method: its name, e.g. "claw", "vcl" or "ewc"; `pyroclaw --method list` explains them.
    :param net: widths of an MLP's hidden layers, or a :class:`~pyroclaw.data.NetPreset`.
    :param device: "cpu", "cuda", ..., or "auto" for a GPU if there is one.
    :param heads: "multi", a head for each task, or "single", one for the `classes` of all tasks.
    :param classes: the labels of a single head.
    :param replicates: learners of other initial values and noise, in one plate, whose answers are averaged.
    :param validation: share of each task that is set aside and not trained on.
    :param settings: of the method, by name, where they are not to be its defaults.
    """

    def __init__(
        self,
        method: str = "claw",
        net: Sequence[int] | NetPreset = (256, 256),
        device: str | torch.device = "auto",
        *,
        heads: Heads = "multi",
        classes: Sequence[int] = (),
        epochs: float = 10.0,
        batch_size: int = 256,
        replicates: int = 1,
        seed: int = 0,
        validation: float = 0.1,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        methods = _methods()
        entry = methods[choose("method", method, methods)]
        for name in settings or {}:
            choose(f"setting of {method}", name, [field.name for field in fields(entry.settings)])
        for name, value in (("epochs", epochs), ("batch_size", batch_size), ("replicates", replicates)):
            if value <= 0:
                raise InputError(f"{name}={value} of the learner must be above 0.")
        if heads not in ("single", "multi"):
            raise InputError(f"heads={heads!r} of the learner must be 'single' or 'multi'.")
        if (heads == "single") != (len(classes) > 1):
            raise InputError("classes= must name two labels or more if heads='single', and nothing otherwise.")
        if not 0 <= validation <= 0.5:
            raise InputError(f"validation={validation} of the learner must be a share from 0 to 0.5.")
        self.net = net if isinstance(net, NetPreset) else NetPreset("mlp", hidden=tuple(net))
        self.device = find_device(device)
        self.options: dict[str, Any] = {
            "method": method,
            "heads": heads,
            "classes": [int(label) for label in classes],
            "epochs": float(epochs),
            "batch_size": batch_size,
            "replicates": replicates,
            "seed": seed,
            "validation": validation,
            "settings": dict(settings or {}),
        }
        self.settings = in_range(entry.settings(**(settings or {})))
        self.seeds = [seed + r for r in range(replicates)]
        self.budget = Budget(float(epochs), batch_size)
        self.tasks: dict[str, list[int]] = {}  # the labels of each task so far
        self.elbo: dict[str, torch.Tensor] = {}  # [steps, replicates] of each task
        self.kind: str | None = None  # dtype and shape of an image
        self.shape: list[int] | None = None  # of an input of the net
        self.method: Any = None  # made with the first task, which says how large an image is

    # ---- learning ----------------------------------------------------------------------------------------------

    def learn(self, data: Any, labels: Any = None, *, name: str | None = None) -> Report:
        """Learn one more task, which is not kept.

        If anything goes wrong, the learner is as it was before.

        :param data: (images, labels), a torch `Dataset` or a `DataLoader`; or images, with the labels besides.
        :param name: to ask about it later; "task 1", "task 2", ... if not given.
        """
        index = len(self.tasks)
        name = f"task {index + 1}" if name is None else name
        if name in self.tasks:
            raise InputError(f"There is a task {name!r} already: give this one another name.")
        found = alike(name, checked(name, pair(name, data, labels)), self.kind)
        check_net("the learner", self.net, found.images)
        own, place = places(name, found.labels, self.options["classes"] or None)
        images = as_tensor(found.images, pictures=self.net.kind == "cnn")
        flat, streams = self.net.kind == "mlp", partial(self._streams, index)
        task = make_task(name, images, place, len(own), flat, self.options["validation"], streams("rows"))
        if self.method is None:
            self.shape = [images[0].numel()] if flat else list(images.shape[1:])
        method = self.new_method() if self.method is None else copied(self.method)
        elbo = method.learn(index, task, Training(self.budget, streams))
        self.method, self.kind, self.tasks[name], self.elbo[name] = method, kind(found), own, elbo.cpu()
        right = accuracy(method, index, task.validation).mean().item()
        return Report(name, own, right, elbo.cpu().numpy(), method.summary())

    def new_method(self) -> Any:
        """As it is before the first task."""
        assert self.shape is not None  # the first task is there
        streams = Streams(self.seeds, "init", device=self.device)
        entry = _methods()[self.options["method"]]
        return entry.make(make_net(self.net, self.shape), self.options["heads"], streams, self.settings)

    def _streams(self, index: int, purpose: str) -> Streams:
        return Streams(self.seeds, purpose, index, device=self.device)

    # ---- answers -----------------------------------------------------------------------------------------------

    def predict(self, x: Any, task: str | None = None, samples: int = 0) -> np.ndarray:
        """The label of each image.

        :param task: the name of the task it is about; None to infer it, for each image, as :meth:`infer_task` does.
        :param samples: of the posterior to average over; 0 for mean weights.
        """
        labels = self.labels if task is None else self.tasks[self._task(task)]
        return np.array(labels)[self.predict_proba(x, task, samples).argmax(1)]

    def predict_proba(self, x: Any, task: str | None = None, samples: int = 0) -> np.ndarray:
        """Probabilities [n, labels of the task], or [n, :attr:`labels`] with each image's task inferred."""
        if task is not None:
            return self._sampled(x, task, samples).mean(0).cpu().numpy()
        whole, inferred = np.zeros((len(x), len(self.labels)), np.float32), self.infer_task(x, samples)
        for name in dict.fromkeys(inferred.tolist()):
            rows, columns = np.flatnonzero(inferred == name), np.searchsorted(self.labels, self.tasks[name])
            whole[np.ix_(rows, columns)] = self._sampled(x, name, samples).mean(0).cpu().numpy()[rows]
        return whole

    def uncertainty(self, x: Any, task: str | None = None, samples: int = 20) -> Uncertainty:
        """Total, aleatoric and epistemic uncertainty of each image in nats, for a task or the inferred one."""
        if task is not None:
            return decompose(self._sampled(x, task, samples))
        inferred = self.infer_task(x, samples)
        each = {name: decompose(self._sampled(x, name, samples)) for name in self.tasks}
        return Uncertainty(*(np.array([each[t][k][i] for i, t in enumerate(inferred)]) for k in range(3)))

    def infer_task(self, x: Any, samples: int = 0) -> np.ndarray:
        """The name of the task whose head is surest of each image.

        Surest is the one of least predictive entropy, as a share of the largest possible, log(number of its labels).
        """
        if not self.tasks:
            raise InputError("The learner has learned no task yet: call learn first.")
        shares = [
            decompose(self._sampled(x, name, samples)).total / np.log(len(own)) for name, own in self.tasks.items()
        ]
        return np.array(list(self.tasks))[np.argmin(shares, axis=0)]

    @property
    def labels(self) -> list[int]:
        """Of all tasks, in order."""
        return sorted({label for own in self.tasks.values() for label in own})

    def _task(self, name: str) -> str:
        if not self.tasks:
            raise InputError("The learner has learned no task yet: call learn first.")
        return choose("task", name, self.tasks)

    def _sampled(self, x: Any, task: str, samples: int) -> torch.Tensor:
        index = list(self.tasks).index(self._task(task))
        if samples < 0:
            raise InputError(f"samples={samples} must be 0 or above.")
        x = inputs("x", x, self.kind, flat=self.net.kind == "mlp").to(self.device)
        return sampled(self.method, index, x, samples, self._streams(index, "predict"))

    def to_arviz(self, data: Mapping[str, Any] | None = None, draws: int = 100, weights: bool = False) -> Any:
        """The posterior as arviz's `InferenceData` (:mod:`pyroclaw.inference.to_arviz`).

        :param data: by the name of a task (images, labels) that it was trained on, for the log-likelihood.
        :param weights: add draws of all weights.
        """
        if not self.tasks:
            raise InputError("The learner has learned no task yet: call learn first.")
        numbers = {name: number for number, name in enumerate(self.tasks)}
        fitted = {numbers[self._task(name)]: self._examples(name, one) for name, one in (data or {}).items()}
        streams = Streams(self.seeds, "arviz", device=self.device)
        traces = list(self.elbo.values())
        groups = datasets(self.method, list(self.tasks), traces, streams, fitted, draws=draws, weights=weights)
        return inference_data(groups)

    def _examples(self, name: str, data: Any) -> Examples:
        images, labels = pair(name, data)
        x = inputs(name, images, self.kind, flat=self.net.kind == "mlp").to(self.device)
        y = torch.from_numpy(places(name, np.asarray(labels), self.tasks[name])[1]).to(self.device)
        return Examples(x.expand(len(self.seeds), *x.shape), y.expand(len(self.seeds), -1))

    # ---- folders -----------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write all that is needed to answer and to go on learning; the save before is kept too."""
        save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, device: str | torch.device = "auto") -> "Learner":
        """A learner that goes on exactly where the saved one was.

        If the last save is damaged, a warning says so and the one before is loaded.
        """
        return load(cls, Path(folder), device)
