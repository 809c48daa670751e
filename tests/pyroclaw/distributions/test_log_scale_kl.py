import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma
from torch.distributions import Normal

from pyroclaw.distributions import (
    MOLCHANOV_FIT,
    LogScale,
    gain_moments,
    log_scale_kl,
    log_scale_kl_from_ratio,
    sigmoid_fit_kl,
)
from pyroclaw.errors import InputError
from pyroclaw.experiments.fit_log_scale import quadrature

DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
MINIMUM = -0.5 * math.log(math.pi * math.e) + 0.5 * digamma(0.5)


def reference(rho):
    """KL and dKL/dlog ρ by quadrature at the ratios as rounded to the dtype."""
    value, slope = np.array([quadrature(r) for r in rho.detach().double().tolist()]).T
    return torch.tensor(value), torch.tensor(slope)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ratio_against_quadrature(dtype):
    rho = torch.logspace(-8, 8, 97, dtype=torch.float64).to(dtype).requires_grad_()
    value = log_scale_kl_from_ratio(rho)
    (slope,) = torch.autograd.grad(value.sum(), rho)
    assert value.dtype == slope.dtype == dtype
    expected_value, expected_slope = reference(rho)
    by_log_rho = slope.double() * rho.detach().double()
    assert (value.double() - expected_value).abs().max() < TOLERANCE[dtype]
    assert (by_log_rho - expected_slope).abs().max() < TOLERANCE[dtype]
    assert (by_log_rho / expected_slope - 1).abs().max() < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [-1e-3, 1.0, 1e3])
def test_mean_and_variance_against_quadrature(dtype, size):
    variance = (torch.logspace(-8, 8, 33, dtype=torch.float64) * size**2).to(dtype).requires_grad_()
    mean = torch.full_like(variance, size).requires_grad_()
    value = log_scale_kl(mean, variance)
    by_mean, by_variance = torch.autograd.grad(value.sum(), (mean, variance))
    expected_value, expected_slope = reference(variance.double() / mean.double().square())
    assert (value.double() - expected_value).abs().max() < TOLERANCE[dtype]
    # log ρ = log V - 2 log|M|
    assert (by_variance.double() * variance.double() / expected_slope - 1).abs().max() < TOLERANCE[dtype]
    assert (by_mean.double() * mean.double() / (-2 * expected_slope) - 1).abs().max() < TOLERANCE[dtype]


@pytest.mark.parametrize(("mean", "scale"), [(0.0, 1.0), (1.0, 0.05), (-0.3, 0.3), (0.02, 3.0)])
def test_against_monte_carlo(mean, scale):
    q = Normal(torch.tensor(mean, dtype=torch.float64), torch.tensor(scale, dtype=torch.float64))
    w = q.sample((100_000,))
    terms = q.log_prob(w) - LogScale().log_prob(w)
    error = log_scale_kl(q.mean, q.variance) - terms.mean()
    assert error.abs() < 5 * terms.std() / len(terms) ** 0.5


def test_gradcheck():
    mean = torch.tensor([-2.0, 0.0, 1e-3, 0.5, 3.0], dtype=torch.float64, requires_grad=True)
    variance = torch.tensor([[0.1], [1.0], [20.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(log_scale_kl, (mean, variance))
    assert torch.autograd.gradcheck(log_scale_kl_from_ratio, variance)


def test_gradcheck_on_the_tangent_below_the_floor():
    ones = torch.tensor([1.0, -1.0], dtype=torch.float64)
    # A mean of 1e6 puts the ratio below its floor at variances that differences of 1e-3 hardly change.
    variance = torch.tensor([10.0, 50.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: log_scale_kl(1e6 * ones, v), variance, eps=1e-3)
    mean = ones.clone().requires_grad_()
    tiny = torch.tensor([1e-11, 5e-11], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda m: log_scale_kl(m, tiny), mean)


@settings(deadline=None)
@given(log_rho=st.floats(-18, 18), step=st.floats(0.1, 5), log_size=st.floats(-3, 3))
def test_falls_with_the_ratio_and_does_not_see_the_size(log_rho, step, log_size):
    rho, larger, size = math.exp(log_rho), math.exp(log_rho + step), math.exp(log_size)
    value, below = log_scale_kl_from_ratio(torch.tensor([rho, larger], dtype=torch.float64))
    assert MINIMUM - 1e-12 < below < value
    scaled = log_scale_kl(*torch.tensor([size, rho * size**2], dtype=torch.float64))
    assert abs(scaled - value) < 1e-10


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rho", [float("inf"), 1e35, 1e12])
def test_infinite_ratio_is_the_minimum(dtype, rho):
    ratio = torch.tensor(rho, dtype=dtype, requires_grad=True)
    value = log_scale_kl_from_ratio(ratio)
    (slope,) = torch.autograd.grad(value, ratio)
    assert value.item() == pytest.approx(MINIMUM, abs=1e-6)
    assert slope.isfinite() and slope.abs() < 1e-20


@pytest.mark.parametrize("dtype", DTYPES)
def test_mean_of_zero_is_the_minimum(dtype):
    mean = torch.zeros(3, dtype=dtype, requires_grad=True)
    variance = torch.tensor([1e-12, 1.0, 1e12], dtype=dtype, requires_grad=True)
    value = log_scale_kl(mean, variance)
    torch.testing.assert_close(value, torch.full_like(value, MINIMUM))
    assert all((g == 0).all() for g in torch.autograd.grad(value.sum(), (mean, variance)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_ratio_of_zero_is_held_by_the_tangent(dtype):
    rho = torch.tensor([0.0, 1e-12, 1e-10], dtype=dtype, requires_grad=True)
    value = log_scale_kl_from_ratio(rho)
    (slope,) = torch.autograd.grad(value.sum(), rho)
    # At the floor the KL is -½ log(2πe ρ) but for ρ itself; the tangent climbs by ½ from there to 0.
    at_floor = -0.5 * math.log(2 * math.pi * math.e * 1e-10)
    expected = torch.tensor([at_floor + 0.5, at_floor + 0.495, at_floor], dtype=dtype)
    torch.testing.assert_close(value, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(slope, torch.full_like(slope, -0.5e10), rtol=1e-5, atol=0)
    assert slope.float().square().isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("b", "p", "inward_for_p"),
    [(0.5, 0.0, -1), (0.5, 1.0, 1), (-0.5, 0.0, -1), (-1.0, 0.0, -1), (-0.999999, 1.0, 1), (0.0, 0.5, 0)],
)
def test_gain_without_noise_is_held_with_an_inward_gradient(dtype, b, p, inward_for_p):
    b, p = (torch.tensor(x, dtype=dtype, requires_grad=True) for x in (b, p))
    value = log_scale_kl(*gain_moments(b, p))
    gradients = torch.autograd.grad(value, (b, p))
    assert value.isfinite() and value > 3
    assert all(g.isfinite() and g.float().square().isfinite() for g in gradients)
    # Descent moves p against the sign of its gradient; a neuron with b = 0 is not adapted, whatever its p.
    assert gradients[1].sign() == inward_for_p


@pytest.mark.parametrize("dtype", DTYPES)
def test_gain_of_exactly_zero_is_the_minimum(dtype):
    b, p = (torch.tensor(x, dtype=dtype, requires_grad=True) for x in (-1.0, 1.0))
    value = log_scale_kl(*gain_moments(b, p))
    assert value.item() == pytest.approx(MINIMUM, abs=1e-6)
    assert all(g.isfinite() for g in torch.autograd.grad(value, (b, p)))
    nearly = log_scale_kl(*gain_moments(b.double(), torch.tensor(1 - 1e-9, dtype=torch.float64)))
    assert nearly.item() == pytest.approx(MINIMUM, abs=1e-6)


@pytest.mark.parametrize("shape", [(), (0,), (3, 1), (300_001,)])
def test_shapes_and_pieces(shape):
    mean, variance = torch.randn(shape, dtype=torch.float64), torch.rand(shape, dtype=torch.float64) + 0.1
    value = log_scale_kl(mean, variance)
    assert value.shape == shape
    if value.numel():
        last = log_scale_kl(mean.reshape(-1)[-1:], variance.reshape(-1)[-1:])
        torch.testing.assert_close(value.reshape(-1)[-1:], last)


def test_broadcasts_and_takes_strided_tensors():
    mean, variance = torch.randn(4, 3).T, torch.rand(4) + 0.1
    value = log_scale_kl(mean, variance)
    torch.testing.assert_close(value, log_scale_kl(mean.contiguous(), variance.expand(3, 4).contiguous()))


@pytest.mark.parametrize("device", ["meta", "cuda"])
def test_other_devices(device):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    mean = torch.ones(5, device=device, requires_grad=True)
    value = log_scale_kl(mean, torch.ones(5, device=device))
    value.sum().backward()
    assert value.device.type == mean.grad.device.type == device


def test_refuses_mixed_dtypes():
    with pytest.raises(InputError, match="both float32 or both float64"):
        log_scale_kl(torch.ones(1), torch.ones(1).double())
    with pytest.raises(InputError, match="float16"):
        log_scale_kl(torch.ones(1).half(), torch.ones(1).half())


@pytest.mark.parametrize("constants", [None, MOLCHANOV_FIT])
def test_sigmoid_fit_shares_the_constant_of_the_exact_kl(constants):
    rho = torch.logspace(-6, 8, 57, dtype=torch.float64)
    fitted = sigmoid_fit_kl(rho) if constants is None else sigmoid_fit_kl(rho, *constants)
    assert (fitted - log_scale_kl_from_ratio(rho)).abs().max() < 0.01
    assert fitted[-1].item() == pytest.approx(MINIMUM, abs=1e-7)
    k1, k2, k3 = MOLCHANOV_FIT
    if constants is not None:  # equation 14 as printed, its constant C = -k1 and the minimum of the KL aside
        printed = k1 * torch.sigmoid(k2 + k3 * rho.log()) - 0.5 * torch.log1p(1 / rho) - k1
        torch.testing.assert_close(fitted, MINIMUM - printed)
