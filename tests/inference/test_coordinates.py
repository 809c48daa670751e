"""Steps along the prior's axes: the same prior in other coordinates, in which Adam finds what is free to move."""

from contextlib import contextmanager
from unittest.mock import patch

import pyro
import pytest
import torch
from pyro.distributions import Normal
from torch.distributions import kl_divergence

from pyroclaw.distributions import DisplacedNormal, KroneckerGaussian, MatchedGaussian
from pyroclaw.inference.consolidation import Precision
from pyroclaw.inference.coordinates import Coordinates
from pyroclaw.inference.mean_field import MeanField
from pyroclaw.nets import Layer
from pyroclaw.streams import Streams

REPLICATES, INPUTS, UNITS = 2, 6, 4


def some(*shape):
    return torch.randn(REPLICATES, 1, *shape, dtype=torch.float64)


@pytest.fixture
def precision():
    rows, columns = some(INPUTS, INPUTS), some(UNITS, UNITS)
    return Precision(rows @ rows.mT, columns @ columns.mT)


@contextmanager
def monitored(cls, name):
    """The calls of a method."""
    with patch.object(cls, name, autospec=True, side_effect=getattr(cls, name)) as calls:
        yield calls.mock_calls


def coordinates(precision, mean=None):
    """Of a prior with three times the precision, and a ridge."""
    rows, columns = precision.positive()
    mean = rows.new_zeros(*rows.shape[:-1], columns.shape[-1]) if mean is None else mean
    return Coordinates.along(precision, KroneckerGaussian(mean, 3 * rows, columns, beta=0.2))


def test_the_pull_is_a_sum_over_coordinates(precision):
    """½ Σ a_i g_j Z_ij², whatever Z is; the prior's own density says the same of U Z Vᵀ."""
    along = coordinates(precision, some(INPUTS, UNITS))._replace(position=some(INPUTS, UNITS))
    prior = along.prior
    a, g = (torch.linalg.eigvalsh(factor) for factor in (prior.rows, prior.columns))
    pull = 0.5 * (a.unsqueeze(-1) * g.unsqueeze(-2) * along.position.square()).sum((-2, -1))
    density = prior.log_prob(prior.mean) - prior.log_prob(prior.mean + along.displacement())
    torch.testing.assert_close(pull, density)
    torch.testing.assert_close(along.pull(prior), pull)


@pytest.mark.parametrize("kind", ["normal", "matched"])
def test_the_kl_is_the_same_in_coordinates(precision, kind):
    """Its value, and its gradients in coordinates and variances; inside a plate too, which makes copies."""
    along, found = coordinates(precision, some(INPUTS, UNITS)), []
    position, scale = some(INPUTS, UNITS).requires_grad_(), some(INPUTS, UNITS).exp().requires_grad_()
    along = along._replace(position=position)
    gains = [(some(1, UNITS), some(1, UNITS).square())]
    for own in (along, None):
        if kind == "matched":
            guide = MatchedGaussian.from_gains(along.location(), gains, 2 * scale.log(), own)
        else:
            guide = Normal(along.location(), scale) if own is None else DisplacedNormal(along.location(), scale, own)
        with pyro.plate("replicate", REPLICATES, dim=-2), pyro.poutine.trace() as trace:
            pyro.sample("guide", guide.to_event(2))
            pyro.sample("prior", along.prior)
        laws = [trace.trace.nodes[site]["fn"] for site in ("guide", "prior")]
        with monitored(KroneckerGaussian, "_pull") as asked:
            kl = kl_divergence(*laws)
        assert bool(asked) == (own is None)
        found.append((kl, *torch.autograd.grad(kl.sum(), (position, scale))))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_to_another_prior_coordinates_say_nothing(precision):
    along = coordinates(precision)
    own = along.prior
    assert along.pull(own.expand(own.batch_shape)) is not None
    for other in (
        KroneckerGaussian(own.mean.clone(), own.rows, own.columns),
        KroneckerGaussian(own.mean, 2 * own.rows, own.columns),
        KroneckerGaussian(own.mean, own.rows, 2 * own.columns),
        Normal(own.mean, 1.0),
    ):
        assert along.pull(other) is None


def test_nothing_is_out_of_reach(precision):
    """U Z Vᵀ is any matrix for some Z, and as long as Z."""
    wanted, along = some(INPUTS, UNITS), coordinates(precision)
    assert not along.displacement().any()
    along = along._replace(position=along.rows.mT @ wanted @ along.columns)
    torch.testing.assert_close(along.displacement(), wanted)
    torch.testing.assert_close(along.position.norm(), wanted.norm())


def test_its_gradient(precision):
    along = coordinates(precision)
    position = some(INPUTS, UNITS).requires_grad_(True)
    assert torch.autograd.gradcheck(lambda z: along._replace(position=z).displacement(), (position,))


@pytest.mark.parametrize("scale", [0.0, 1e-35, 1.0, 1e30])
def test_axes_of_a_precision_that_is_singular(scale):
    """Half of the inputs are never on, others are copies of each other, and the whole may be of any size."""
    seen = torch.randn(2, 1, 500, 40).relu()
    inputs = torch.cat([seen, seen, torch.zeros(2, 1, 500, 80)], dim=-1)
    along = coordinates(Precision(scale * (inputs.mT @ inputs), torch.ones(2, 1, 5, 5)))
    assert torch.isfinite(along.precision).all() and (along.precision >= 0).all()
    for axes in (along.rows, along.columns):
        assert axes.dtype == torch.float32
        torch.testing.assert_close(axes.mT @ axes, torch.eye(axes.shape[-1]).expand_as(axes), atol=1e-5, rtol=0)


def test_a_mean_moves_in_its_coordinates_and_settles():
    weights, layer = MeanField(), Layer("one", INPUTS - 1, UNITS)
    weights.add(layer, Streams([0, 1], "init"))
    start = weights.mean["one"]
    unit = Precision(*(2 * torch.eye(n).expand(REPLICATES, 1, n, n) for n in (INPUTS, UNITS)))
    assert weights.trained("one") is weights.location("one") is start
    weights.coordinates["one"] = along = coordinates(unit, start.clone())
    assert weights.trained("one") is along.position
    along.position.fill_(0.5)
    moved = weights.distribution("one").mean
    torch.testing.assert_close(moved - start, along.displacement())
    weights.settle()
    assert not weights.coordinates and torch.equal(weights.mean["one"], moved)


def test_adam_moves_what_is_free_while_it_holds_what_is_not():
    """A prior that holds one combination of twenty inputs, of which the new task would like to change all.

    In single weights the pull on what is held is in every gradient, so Adam takes small steps everywhere; along the
    prior's axes it is in one of them. After as many steps the task has come farther where it is free to.
    """
    held = torch.ones(20) / 20**0.5
    rows = 1e-3 * torch.eye(20) + 1e3 * torch.outer(held, held)
    precision, wanted = Precision(rows[None, None], torch.ones(1, 1, 1, 1)), torch.randn(1, 1, 20, 1) + 2
    missing = {}
    for axes in ("prior", "weights"):
        along = coordinates(precision)
        if axes == "weights":
            along = along._replace(rows=torch.eye(20)[None, None])
        along.position.requires_grad_(True)
        optimiser = torch.optim.Adam([along.position], lr=0.02)
        for _ in range(200):
            moved = along.displacement()
            loss = 0.5 * ((moved * (rows @ moved)).sum() + (moved - wanted).square().sum())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        rest = (wanted - along.displacement()).flatten()
        missing[axes] = (rest - held * (held @ rest)).norm().item()
        assert abs(held @ along.displacement().flatten()) < 0.1
    assert missing["prior"] < 0.2 * missing["weights"]
