"""Everything runs on a device that is not the CPU, and no step waits for it; by a device without numbers.

torch's `FakeTensorMode` computes shapes and places only, and raises where an operation has tensors of two devices. What
a host reads has no value: it is given one. Between the first and the last step of an epoch it must not read at all.

The device is "cuda" and then "meta". The engine of torch's backward pass asks for CUDA's driver, so on fake "cuda" all
runs but that engine, and gradients are what they would be: of the shape and on the device of their parameters. On
"meta", which is not the CPU either, the engine runs too.
"""

import random
import sys

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode

from pyroclaw.data.benchmark import NetPreset
from pyroclaw.data.own import from_arrays
from pyroclaw.distributions import log_scale_kl
from pyroclaw.experiments import posteriors
from pyroclaw.inference import consolidation, darts, svi
from pyroclaw.inference.adaptation import Adaptation
from pyroclaw.inference.method import Budget
from pyroclaw.inference.sequence import learn_tasks
from pyroclaw.inference.state import Packer, Unpacker
from pyroclaw.learner import Learner
from pyroclaw.models import METHODS
from pyroclaw.models.claw import Claw
from pyroclaw.nets import make_net
from pyroclaw.streams import Streams

FEW = {name: {"points": 4} for name in ("claw_coreset", "vcl_coreset", "frcl")} | {"rcl": {"trials": 2, "choices": 3}}
aten = torch.ops.aten
READS = {aten._local_scalar_dense.default, aten.nonzero.default, aten.equal.default, aten._linalg_check_errors.default}


class Elsewhere(FakeTensorMode):
    """The device. Inside an epoch an operation that makes the host wait is an error too."""

    def __init__(self, place):
        super().__init__(allow_non_fake_inputs=True)
        self.place, self.inside, self.random = torch.device(place), False, random.Random(0)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.inside and waits(func, args, kwargs, self.place):
            raise AssertionError(f"{func} waits for the device inside an epoch")
        if func is aten._local_scalar_dense.default and isinstance(args[0], FakeTensor) and args[0].constant is None:
            if args[0].dtype == torch.bool:
                return True  # what is asked is whether all is well
            return self.random.random() if args[0].is_floating_point() else 1
        if func is aten.nonzero.default:  # of half of the entries
            shape = max(1, args[0].numel() // 2), args[0].dim()
            func, args, kwargs = aten.new_empty.default, (args[0], shape), {"dtype": torch.int64}
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        except RuntimeError as error:  # which Pyro would put in words of its own
            raise AssertionError(f"{func}: {error}") from error


class Uploads(TorchFunctionMode):
    """Numbers that are brought to the device inside an epoch, for which the host waits as well."""

    def __init__(self, device):
        super().__init__()
        self.of = device

    def __torch_function__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if self.of.inside and func in (torch.tensor, torch.Tensor.new_tensor) and made.device == self.of.place:
            raise AssertionError(f"{func} waits for the device inside an epoch")
        return made


def waits(func, args, kwargs, place):
    """Whether it reads from the device, or copies from one device to another."""
    first = args[0] if args else None
    if func is aten._to_copy.default:
        return kwargs.get("device", first.device) != first.device
    if func is aten.copy_.default:
        return first.device != args[1].device
    if func in (aten.index.Tensor, aten.index_put_.default):
        return any(index is not None and index.dtype == torch.bool for index in args[1])
    return func in READS and first.device == place


def overhear(monkeypatch, epoch):
    """Call `epoch` with True after each step of a task but the last, and with False after that."""
    counted, steps = Budget.steps, []

    def count(self, task):
        steps.append(counted(self, task))
        return steps[-1]

    monkeypatch.setattr(Budget, "steps", count)
    for module in (svi, darts):
        monkeypatch.setattr(module, "release_memory", lambda step: epoch(step < steps[-1]))


def backward(loss, inputs=None):
    """What the engine of torch would do, by shapes: a gradient for each parameter that a loss depends on."""
    seen, ahead = set(), [loss.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is not None and node not in seen:
            seen.add(node)
            ahead += [before for before, _ in node.next_functions]
            if hasattr(node, "variable") and (inputs is None or any(node.variable is one for one in inputs)):
                node.variable.grad = torch.empty_like(node.variable)


def grad(outputs, inputs, *args, **options):
    return tuple(map(torch.empty_like, [inputs] if isinstance(inputs, torch.Tensor) else inputs))


@pytest.fixture(params=["cuda:0", "meta"])
def elsewhere(request, monkeypatch):
    """The device, with stand-ins for what takes numbers: generators, and arrays of the host."""
    device = Elsewhere(request.param)

    def streams(self, seeds, *key, device="cpu"):
        self.seeds, self.device, self.generators = tuple(seeds), torch.device(device), [None] * len(seeds)

    def epoch(inside):
        device.inside = inside

    def numpy(self):
        assert self.device.type == "cpu"
        return np.zeros(self.shape, str(self.dtype).removeprefix("torch."))

    def moved(self, device):  # torch would swap tensors in place, which an LSTM of fake ones does not let it
        for name, parameter in list(self.named_parameters()):
            setattr(self, name, torch.nn.Parameter(torch.empty_like(parameter, device=device)))
        return self

    def copied(self, memo):
        return memo.setdefault(id(self), self.detach().clone().requires_grad_(self.requires_grad))

    if device.place.type == "cuda":
        monkeypatch.setattr(torch.Tensor, "backward", backward)
        monkeypatch.setattr(torch.autograd, "grad", grad)
    monkeypatch.setattr(torch.nn.Module, "to_empty", moved)
    overhear(monkeypatch, epoch)
    monkeypatch.setattr(Streams, "__init__", streams)
    monkeypatch.setattr(FakeTensor, "numpy", numpy, raising=False)
    monkeypatch.setattr(FakeTensor, "__deepcopy__", copied, raising=False)
    optimizer = sys.modules[torch.optim.Optimizer.__module__]
    monkeypatch.setattr(optimizer, "_get_fused_kernels_supported_devices", lambda: [device.place.type])
    monkeypatch.setattr(consolidation, "POWER_STEPS", 2)
    monkeypatch.setattr(posteriors, "DRAWS", 1)
    with device, Uploads(device), torch.backends.cudnn.flags(enabled=False):  # cuDNN too would ask for a driver
        yield device
    log_scale_kl.__globals__["_polynomials"].cache_clear()


def benchmark(kind):
    """Two tasks of two classes; an MLP with a head for each, or a CNN with one for both."""
    generator, shape = np.random.default_rng(0), (6,) if kind == "mlp" else (1, 8, 8)
    tasks = [(generator.normal(size=(50, *shape)).astype("f4"), np.arange(50) % 2) for _ in range(2)]
    if kind == "mlp":
        return from_arrays("numbers", tasks, net=NetPreset("mlp", hidden=(5, 4)), epochs=1, batch_size=8)
    net = NetPreset("cnn", filters=3, blocks=2)
    return from_arrays("pictures", tasks, heads="single", net=net, epochs=1, batch_size=8)


def made(name, bench, device):
    entry = METHODS[name]
    seeds = [0] if entry.one_by_one or bench.net.kind == "cnn" else [0, 1]
    net, settings = make_net(bench.net, bench.input_shape), entry.settings(**FEW.get(name, {}))
    return entry.make(net, bench.heads, Streams(seeds, "init", device=device), settings), seeds


def learned(name, bench, device, everything=False):
    """Two tasks of two steps each, of learn-to-grow three; with `everything`, samples and transfer too."""
    method, seeds = made(name, bench, device)
    tasks = bench.tasks(seeds, device)
    budget = Budget(1, 10 if name == "ltg" else 15)
    notes = learn_tasks(method, tasks, budget, seeds, device, samples=int(everything), transfer=everything)
    return method, tasks, seeds, list(notes)


@pytest.mark.filterwarnings("ignore:Encountered")  # Pyro asks whether there is a NaN, and is told yes
@pytest.mark.parametrize("kind", ["mlp", "cnn"])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_lives_on_the_device(name, kind, elsewhere, tmp_path):
    """Learning, tests, calibration, checkpoints; with an MLP transfer and the posterior's file. And no step waits."""
    bench, device = benchmark(kind), elsewhere.place
    method, tasks, seeds, notes = learned(name, bench, device, everything=kind == "mlp")
    for note in notes:
        found = [note.test, note.elbo, *note.calibration.values(), *([note.transfer] if kind == "mlp" else [])]
        assert all(one.device == device for one in found)
    packer = Packer()
    state, (again, _) = packer.pack(method), made(name, bench, device)
    assert all(tensor.device.type == "cpu" for tensor in packer.tensors.values())
    again = Unpacker(packer.tensors, device=device).unpack(state, again)
    for one in (method, again):
        kept = {**one.parameters(), **one.memory()}
        shapes = [key for key in kept if name == "joint" and key.startswith("images_")]  # counted, not kept
        assert len(kept) > len(shapes)
        assert all(tensor.device == device for key, tensor in kept.items() if key not in shapes)
        assert one.logits(1, tasks[1].test.batch(torch.zeros(len(seeds), 3, dtype=torch.int64))[0]).device == device
    if kind == "cnn":
        return
    files = [tmp_path / f"seed{seed}" / posteriors.FILE for seed in seeds]
    for file in files:
        file.parent.mkdir()
    posteriors.write(tmp_path, again, tasks, notes, seeds, device)
    assert all(file.stat().st_size for file in files)


@pytest.mark.filterwarnings("ignore:Encountered")
def test_a_tensor_that_was_left_on_the_cpu_is_noticed(elsewhere, monkeypatch):
    neutral = Adaptation.neutral
    monkeypatch.setattr(Adaptation, "neutral", staticmethod(lambda s, probability: neutral(s.cpu(), probability)))
    with pytest.raises(AssertionError, match=f"at least two devices, {elsewhere.place} and cpu"):
        learned("claw", benchmark("mlp"), elsewhere.place)


WAITING = {
    "item": lambda p: p.mean().item(),
    "bool": lambda p: bool(p.isfinite().all()),
    "tolist": lambda p: p.tolist(),
    "nonzero": lambda p: p.nonzero(),
    "mask": lambda p: p[p > 0.5],
    "cpu": lambda p: p.cpu(),
    "to the device": lambda p: torch.tensor([1.0, 2.0], device=p.device),
    "cholesky": lambda p: torch.linalg.cholesky(p.T @ p),
}


@pytest.mark.filterwarnings("ignore:Encountered")
@pytest.mark.parametrize("how", WAITING)
def test_a_step_that_waits_is_noticed(elsewhere, monkeypatch, how):
    monkeypatch.setattr(Claw, "constrain", lambda self: WAITING[how](self.adaptations[self.task].p.detach()))
    with pytest.raises(AssertionError, match="waits for the device inside an epoch"):
        learned("claw", benchmark("mlp"), elsewhere.place)


@pytest.mark.filterwarnings("ignore:Encountered")
def test_a_learner_lives_on_the_device(elsewhere, monkeypatch):
    monkeypatch.setattr("pyroclaw.learner.learner.find_device", torch.device)
    learner = Learner("claw", net=(5, 4), epochs=1, batch_size=15, replicates=2, device=elsewhere.place)
    x, y = np.zeros((30, 6), "f4"), np.arange(30) % 2
    for name in ("one", "two"):
        learner.learn(x, y, name=name)
    assert all(tensor.device == elsewhere.place for tensor in learner.method.parameters().values())
    assert learner.predict_proba(x, "one", samples=1).shape == (30, 2)
    assert len(learner.uncertainty(x, "two", samples=1).total) == len(learner.predict(x)) == 30


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("kind", ["mlp", "cnn"])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_lives_on_a_gpu(name, kind, monkeypatch):
    """A real one, which itself says when it is waited for."""
    overhear(monkeypatch, lambda inside: torch.cuda.set_sync_debug_mode("error" if inside else "default"))
    try:
        method, _, _, notes = learned(name, benchmark(kind), torch.device("cuda"), everything=True)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(torch.isfinite(note.elbo).all() for note in notes)
    assert all(tensor.is_cuda for tensor in method.parameters().values())
