"""What compiled loops compute is what torch computes, in values, gradients and in what is not finite."""

import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from pyroclaw import fused
from pyroclaw.blocks import block
from pyroclaw.data.part import examples
from pyroclaw.distributions import log_scale_kl
from pyroclaw.distributions.gains import Group, grouped_gains
from pyroclaw.distributions.gaussian_kl import GaussianPrior, gaussian_kl
from pyroclaw.distributions.kronecker import _half_spread
from pyroclaw.distributions.matched_moments import matched_moments
from pyroclaw.drawn_linear import drawn_linear
from pyroclaw.exponential import exponential
from pyroclaw.fused import fusable
from pyroclaw.kernels import compiling
from pyroclaw.normal_numbers import fill_normal

R, ROWS, COLUMNS, EXAMPLES = 3, 37, 21, 19  # which no length of vectors divides
GROUPS = [Group(4, taps=3, bias=True, rows=True), Group(COLUMNS)]


def moments(gamma, log_variance, m, v, *rows):
    """Moments, and γ and σ²: a sum of all takes the gradients of both."""
    found, own = matched_moments(gamma, log_variance, (m, v), rows or None)
    return [*found, *own]


def kl_to_a_gaussian(mean, variance, m0, v0):
    return gaussian_kl(mean, variance, GaussianPrior.from_moments(m0.detach(), v0.detach().abs()), 0.3, 2.0)


def gains(p, a, s):
    return [moment for pair in grouped_gains(p, a, s, GROUPS) for moment in pair]


def noisy(x):
    """Times noise of a generator for each replicate, all of one seed."""
    noise = torch.empty(x.shape)
    for row in noise:
        fill_normal(row, torch.Generator().manual_seed(0))
    return x * noise.to(x)


def normal(*shape):
    return lambda: torch.randn(R, *shape)


def positive(*shape):
    return lambda: torch.rand(R, *shape) + 0.01


WEIGHTS, UNITS = (1, ROWS, COLUMNS), 4 + COLUMNS
CASES = {
    "log-scale KL": (log_scale_kl, normal(*WEIGHTS), positive(*WEIGHTS)),
    "weighted log-scale KL": (lambda *q: log_scale_kl(*q, 0.2), normal(*WEIGHTS), positive(*WEIGHTS)),
    "Gaussian KL": (kl_to_a_gaussian, normal(*WEIGHTS), positive(*WEIGHTS), normal(*WEIGHTS), positive(*WEIGHTS)),
    "spread": (_half_spread, positive(*WEIGHTS), positive(1, ROWS), positive(1, COLUMNS)),
    "moments": (moments, normal(*WEIGHTS), normal(*WEIGHTS), normal(1, 1, COLUMNS), positive(1, 1, COLUMNS)),
    "moments with inputs": (
        moments,
        normal(*WEIGHTS),
        normal(*WEIGHTS),
        *(normal(1, 1, COLUMNS), positive(1, 1, COLUMNS)),
        *(normal(1, ROWS, 1), positive(1, ROWS, 1)),
    ),
    "block": (block, normal(EXAMPLES, 5, 7, 6), normal(9 * 5 + 1, COLUMNS)),
    "gains": (gains, positive(UNITS), normal(UNITS), positive(UNITS)),
    "drawn map": (
        lambda x, m, v: drawn_linear(
            x,
            m,
            v,
            torch.linspace(-2, 2, EXAMPLES * COLUMNS)
            .expand(len(x), -1)
            .to(x)
            .reshape(len(x), EXAMPLES, COLUMNS)
            .clone(),
        ),
        normal(EXAMPLES, ROWS - 1),
        normal(ROWS, COLUMNS),
        positive(ROWS, COLUMNS),
    ),
    "narrow drawn map": (
        lambda x, m, v: drawn_linear(x, m, v, torch.ones(len(x), EXAMPLES, 3).to(x)),
        normal(EXAMPLES, ROWS - 1),
        normal(ROWS, 3),
        positive(ROWS, 3),
    ),
    "normal numbers": (noisy, normal(16, COLUMNS)),
    "exponential": (exponential, lambda: 8 * torch.randn(R, *WEIGHTS)),
}
FIXED = {"Gaussian KL": 2, "spread": 1}  # inputs that have a gradient, where not all have
every = pytest.mark.parametrize("name", CASES)


def example(name):
    function, *made = CASES[name]
    return function, [make() for make in made]


def computed(name, function, inputs, seed=0):
    """Values of a function, and the gradients to its inputs, of a sum with and without weights."""
    inputs = [one.clone() for one in inputs]
    trained = [one.requires_grad_() for one in inputs[: FIXED.get(name)]]
    found = function(*inputs)
    values = [found] if isinstance(found, torch.Tensor) else list(found)
    generator = torch.Generator().manual_seed(seed)
    slopes = [torch.randn(value[:1].shape, generator=generator).to(value).expand_as(value) for value in values]
    plain = torch.autograd.grad(sum(value.sum() for value in values), trained, retain_graph=True)
    return [one.detach() for one in (*values, *plain, *torch.autograd.grad(values, trained, slopes))]


def without_kernels(monkeypatch, *arguments):
    with monkeypatch.context() as patch:
        patch.setattr(fused, "kernels", None)
        return computed(*arguments)


def sized(tensor):
    return tensor.abs().max().item()


@every
def test_numbers_are_those_of_torch_and_of_float64(name, monkeypatch):
    function, inputs = example(name)
    assert fusable(*inputs)
    found, expected = computed(name, function, inputs), without_kernels(monkeypatch, name, function, inputs)
    exact = computed(name, function, [one.double() for one in inputs])
    for own, other, right in zip(found, expected, exact, strict=True):
        assert own.dtype == torch.float32 and own.shape == other.shape
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-5 * sized(other))
        torch.testing.assert_close(own.double(), right, rtol=1e-5, atol=1e-5 * sized(right))


@every
def test_a_replicates_bits_do_not_depend_on_its_company(name):
    function, inputs = example(name)
    for own, other in zip(
        computed(name, function, inputs), computed(name, function, [one[1:2] for one in inputs]), strict=True
    ):
        if name == "gains":  # whose sigmoids are torch's, which has other code for the last few
            torch.testing.assert_close(own[1:2], other)
        else:
            assert torch.equal(own[1:2], other)


@every
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_stays_so(name, wrong, monkeypatch):
    """In all that it is in by torch: each value or gradient, and so their sum, which is all that a guard looks at."""
    function, inputs = example(name)
    for number in range(len(inputs)):
        for place in (0, inputs[number].numel() // 2, -1):
            given = [one.clone() for one in inputs]
            given[number].view(-1)[place] = wrong
            found, expected = computed(name, function, given), without_kernels(monkeypatch, name, function, given)
            for own, other in zip(found, expected, strict=True):
                assert torch.isfinite(own.sum()) == torch.isfinite(other.sum())


@every
def test_only_gradients_that_are_asked_for_are_made(name):
    function, inputs = example(name)
    for number in range(FIXED.get(name, len(inputs))):
        given = [one.clone().requires_grad_(i == number) for i, one in enumerate(inputs)]
        found = function(*given)
        sum(one.sum() for one in (found if isinstance(found, list | tuple) else [found])).backward()
        assert [one.grad is not None for one in given] == [i == number for i in range(len(inputs))]


@pytest.mark.parametrize("variance", [0.0, 1e-30, 1e-12])
@pytest.mark.parametrize("mean", [0.0, 1e-3, 1.0, 100.0])
def test_floors_are_held_as_by_torch(mean, variance, monkeypatch):
    inputs = torch.full((1, 40), mean), torch.full((1, 40), variance)
    for function in (log_scale_kl, lambda m, v: kl_to_a_gaussian(m, v, torch.zeros_like(m), torch.ones_like(v))):
        found, expected = (by("", function, inputs) for by in (computed, lambda *a: without_kernels(monkeypatch, *a)))
        for own, other in zip(found, expected, strict=True):
            torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-6)


def test_a_prior_that_is_learned_has_gradients():
    mean, variance, m0, v0 = (torch.rand(2, 3) for _ in range(4))
    prior = GaussianPrior.from_moments(m0.requires_grad_(), v0.requires_grad_())
    gaussian_kl(mean, variance, prior).sum().backward()
    assert torch.isfinite(m0.grad).all() and torch.isfinite(v0.grad).all()


def test_bytes_are_the_same_numbers(monkeypatch):
    images, rows = torch.arange(256, dtype=torch.uint8).view(8, 32), torch.tensor([[0, 3], [7, 7]])
    order = torch.randperm(32).expand(2, 2, -1)
    found = [examples(images, rows, True, one, None) for one in (None, order)]
    monkeypatch.setattr(fused, "kernels", None)
    for own, one in zip(found, (None, order), strict=True):
        assert torch.equal(own, examples(images, rows, True, one, None))


def test_matrices_that_lie_otherwise_are_copied():
    mean, variance = torch.randn(4, 3).T, torch.rand(6, 4)[::2]
    torch.testing.assert_close(log_scale_kl(mean, variance), log_scale_kl(mean.clone(), variance.clone()))
    torch.testing.assert_close(exponential(mean), mean.exp())
    assert exponential(torch.zeros(0, 3)).shape == (0, 3) and exponential(torch.zeros(())) == 1
    for shape in ((), (3, 0), (0, 3)):
        given = torch.ones(shape, requires_grad=True), torch.ones(shape)
        log_scale_kl(*given).sum().backward()
        assert given[0].grad.shape == shape


def test_other_tensors_are_left_to_torch():
    one = torch.ones(3)
    assert fusable(one, torch.nn.Parameter(one))
    assert not fusable(one, one.double()) and not fusable(one.to("meta")) and not fusable(one.byte())
    assert fusable(one.byte(), dtype=torch.uint8)
    with FakeTensorMode():
        assert not fusable(torch.ones(3))
    seen = []
    torch.func.grad(lambda x: (seen.append(fusable(x)), x.sum())[1])(one)
    assert seen == [False]


def test_without_numba_all_is_left_to_torch():
    code = """
import sys
sys.modules["numba"] = None
import torch
from pyroclaw import fused
from pyroclaw.distributions import log_scale_kl
assert fused.kernels is None and not fused.fusable(torch.ones(1))
assert log_scale_kl(torch.ones(1), torch.ones(1)).isfinite().all()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_where_nothing_can_be_written_loops_are_compiled_each_time(monkeypatch):
    asked = []

    def njit(cache=False, **options):
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda loop: loop

    monkeypatch.setattr(compiling, "njit", njit)
    assert compiling.kernel(len) is len and compiling.summing(len) is len
    assert asked == [True, False, True, False]
