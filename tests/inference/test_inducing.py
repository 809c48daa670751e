from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from pyroclaw.data.augment import Variants
from pyroclaw.errors import InputError
from pyroclaw.inference.inducing import (
    JITTER,
    InducingPrior,
    InducingValues,
    choose,
    gains,
    residual,
    root_or_nan,
    with_jitter,
)
from pyroclaw.streams import Streams

REPLICATES, CLASSES = 2, 3


def posterior(points, dimension, scale=1.0):
    """Values at inducing points under a random q(w), and the features that they have later."""
    features = scale * torch.randn(REPLICATES, points, dimension, dtype=torch.float64)
    root = 0.3 * torch.randn(REPLICATES, CLASSES, dimension, dimension, dtype=torch.float64).tril(-1)
    root += torch.diag_embed(0.1 + torch.rand(REPLICATES, CLASSES, dimension, dtype=torch.float64))
    mean = torch.randn(REPLICATES, CLASSES, dimension, dtype=torch.float64)
    return InducingValues(features, mean, root), features + 0.3 * torch.randn_like(features)


def dense(values):
    """m [R, C, M] and S [R, C, M, M] of the values, written out."""
    phi, root = values.features[:, None], values.weight_root
    covariance = phi @ root @ root.mT @ phi.mT + JITTER * torch.eye(phi.shape[2], dtype=phi.dtype)
    return (phi @ values.weight_mean[..., None])[..., 0], covariance


SIZES = pytest.mark.parametrize("points, dimension", [(3, 7), (7, 7), (8, 7), (30, 7)])


@SIZES
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_the_kl_is_that_of_the_dense_gaussians(points, dimension, scale):
    values, features = posterior(points, dimension, scale)
    mean, covariance = dense(values)
    kernel = features @ features.mT + JITTER * torch.eye(points, dtype=features.dtype)
    # the formula, in numpy
    expected = np.zeros(REPLICATES)
    for r in range(REPLICATES):
        k = kernel[r].numpy()
        for m, s in zip(mean[r].numpy(), covariance[r].numpy(), strict=True):
            quadratic = np.trace(np.linalg.solve(k, s + np.outer(m, m)))
            expected[r] += 0.5 * (quadratic - points + np.linalg.slogdet(k)[1] - np.linalg.slogdet(s)[1])
    kl = kl_divergence(values, values.prior(features))
    assert kl.shape == values.batch_shape == (REPLICATES, 1)
    torch.testing.assert_close(kl[:, 0], torch.from_numpy(expected), rtol=1e-6, atol=1e-6)
    # and torch's own for two dense Gaussians
    registered = kl_divergence(
        MultivariateNormal(mean, covariance), MultivariateNormal(torch.zeros_like(mean), kernel[:, None])
    )
    torch.testing.assert_close(kl[:, 0], registered.sum(1), rtol=1e-6, atol=1e-6)


@SIZES
def test_the_kl_has_the_gradient_of_the_dense_one(points, dimension):
    values, features = posterior(points, dimension)
    mean, covariance = dense(values)
    grads = []
    for by_hand in (False, True):
        leaf = features.clone().requires_grad_(True)
        if by_hand:
            kernel = leaf @ leaf.mT + JITTER * torch.eye(points, dtype=leaf.dtype)
            prior = MultivariateNormal(torch.zeros_like(mean), kernel[:, None])
            kl_divergence(MultivariateNormal(mean, covariance), prior).sum().backward()
        else:
            kl_divergence(values, InducingPrior(leaf, CLASSES)).sum().backward()
        grads.append(leaf.grad)
    torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-5)
    assert grads[0].abs().min() > 0


def test_the_kl_is_zero_if_the_posterior_is_the_prior():
    features = torch.randn(REPLICATES, 20, 6)
    identity = torch.eye(6).expand(REPLICATES, CLASSES, 6, 6)
    values = InducingValues(features, torch.zeros(REPLICATES, CLASSES, 6), identity)
    kl = kl_divergence(values, values.prior(features))
    assert kl.dtype == features.dtype  # whatever it is computed in
    torch.testing.assert_close(kl, torch.zeros(REPLICATES, 1), atol=1e-6, rtol=0)


@SIZES
def test_the_moments_are_those_of_the_values(points, dimension):
    values, _ = posterior(points, dimension)
    mean, covariance = dense(values)
    torch.testing.assert_close(values.mean[:, 0], mean)
    torch.testing.assert_close(values.variance[:, 0], covariance.diagonal(dim1=-2, dim2=-1))


def test_values_are_of_their_replicates_only():
    values, features = posterior(4, 3)
    assert values.expand((REPLICATES, 1)) is values
    with pytest.raises(ValueError, match="2 replicates"):
        values.prior(features).expand((5, 1))


@SIZES
def test_the_predictive_is_that_of_the_dense_gaussian_process(points, dimension):
    """With every kernel matrix written out, and no other identity than the definition."""
    values, features = posterior(points, dimension)
    mean, covariance = dense(values)
    weight_mean, root = values.predictive(features)
    new = torch.randn(REPLICATES, 5, dimension, dtype=torch.float64)
    for r in range(REPLICATES):
        z, x = features[r].numpy(), new[r].numpy()
        projection = np.linalg.solve(z @ z.T + JITTER * np.eye(points), z @ x.T).T  # k_*Z K⁻¹
        for c in range(CLASSES):
            m, s = mean[r, c].numpy(), covariance[r, c].numpy()
            expected = np.diag(x @ x.T - projection @ (z @ x.T) + projection @ s @ projection.T)
            np.testing.assert_allclose(x @ weight_mean[r, c].numpy(), projection @ m, rtol=1e-6, atol=1e-7)
            variance = np.square(x @ root[r, c].numpy()).sum(-1)
            np.testing.assert_allclose(variance, expected, rtol=1e-6, atol=1e-7)


def test_with_many_points_and_the_same_features_the_posterior_of_the_weights_comes_back():
    values, _ = posterior(200, 5, scale=10.0)
    mean, root = values.predictive(values.features)
    torch.testing.assert_close(mean, values.weight_mean, rtol=1e-4, atol=1e-4)
    covariance = values.weight_root @ values.weight_root.mT
    torch.testing.assert_close(root @ root.mT, covariance, rtol=1e-4, atol=1e-4)


# ---- which inputs ----------------------------------------------------------------------------------------------------


def trace(features, chosen):
    """Σ_n [k_nn - k_nZ K⁻¹ k_Zn] with all matrices written out: features [n, D], chosen [M]."""
    x = features.double().numpy()
    z = x[np.asarray(chosen)]
    cross = x @ z.T
    explained = cross * np.linalg.solve(z @ z.T + JITTER * np.eye(len(z)), cross.T).T
    return float((x * x).sum() - explained.sum())


@pytest.mark.parametrize("points", [1, 4, 12])
def test_every_gain_is_what_the_trace_loses(points):
    features = torch.randn(2, 40, 6, dtype=torch.float64)
    left = residual(with_jitter(features[:, :points].mT @ features[:, :points]))
    gain = gains(features[:, points:], left, features.mT @ features)
    for r in range(2):
        before = trace(features[r], range(points))
        assert before == pytest.approx(float((left[r] * (features[r].T @ features[r])).sum()), rel=1e-7)
        for i in range(points, 40):
            lost = before - trace(features[r], [*range(points), i])
            assert float(gain[r, i - points]) == pytest.approx(lost, rel=1e-6, abs=1e-8 * before)


def one_by_one(features, order, points, proposals):
    """The search as it is told: a proposal at a time, accepted where the whole trace, computed anew, is lower."""
    chosen, rest = order[:points], order[points:]
    for i in range(points):
        for j in range(proposals):
            proposal = rest[(i * proposals + j) % len(rest)]
            other = [*chosen[:i], proposal, *chosen[i + 1 :]]
            if proposal not in chosen and trace(features, other) < trace(features, chosen):
                chosen = other
    return chosen


def squared(x):
    """Features of some correlation."""
    return torch.cat([x, x[..., :3] ** 2, torch.ones_like(x[..., :1])], -1)


@pytest.mark.parametrize("points, proposals", [(3, 5), (10, 4), (25, 3), (6, 40)])
def test_the_choice_is_that_of_one_proposal_after_the_other(toy, points, proposals):
    part = toy.tasks([0, 1])[0].train
    chosen = choose(part, squared, points, Streams([0, 1], "inducing"), proposals=proposals)
    streams = Streams([0, 1], "inducing")
    for r in range(2):
        features = squared(part.images[part.image_rows(r)])
        order = streams.permutation(r, len(features)).tolist()
        assert chosen[r].tolist() == one_by_one(features, order, points, proposals)
        assert trace(features, chosen[r]) < trace(features, order[:points])


def test_a_replicate_chooses_the_same_alone_and_random_is_the_start(toy):
    part = toy.tasks([3, 4])[0].train
    both = choose(part, squared, 10, Streams([3, 4], "inducing"))
    alone = choose(toy.tasks([4])[0].train, squared, 10, Streams([4], "inducing"))
    assert torch.equal(both[1:], alone) and not torch.equal(both[0], both[1])
    start = choose(part, squared, 10, Streams([3, 4], "inducing"), "random")
    streams = Streams([3, 4], "inducing")
    assert torch.equal(start, torch.stack([streams.permutation(r, part.sizes[r])[:10] for r in range(2)]))


@pytest.mark.parametrize("how", ["trace", "random"])
def test_no_point_twice_and_at_most_as_many_as_there_are(toy, how):
    part = toy.tasks([0, 1])[0].train
    part = replace(part, sizes=(30, 9))
    chosen = choose(part, squared, 1000, Streams([0, 1], "inducing"), how, proposals=50)
    assert chosen.shape == (2, 9) and sorted(chosen[1].tolist()) == list(range(9))
    assert len(set(chosen[0].tolist())) == 9 and int(chosen.max()) < 30


def test_pictures_are_chosen_without_their_variants(toy_pictures):
    part = toy_pictures.tasks([0])[1].train
    plain = choose(part, lambda x: squared(x.flatten(2)), 8, Streams([0], "inducing"))
    numbers = torch.randn(1, 5 * part.sizes[0], 3)
    augmented = replace(part, variants=Variants(numbers, 5), sizes=tuple(5 * size for size in part.sizes))
    assert torch.equal(choose(augmented, lambda x: squared(x.flatten(2)), 8, Streams([0], "inducing")), plain)


@pytest.mark.parametrize("wrong", [{"points": 0}, {"points": 5, "proposals": 0}])
def test_no_points_or_proposals_are_refused(toy, wrong):
    with pytest.raises(InputError, match=r"points=.* 1 or above"):
        choose(toy.tasks([0])[0].train, squared, streams=Streams([0], "inducing"), **wrong)


def test_a_matrix_without_a_root_gives_nan_and_no_error():
    """An error would have to be waited for in each step; NaN is what the guard stops at."""
    matrices = torch.stack([2 * torch.eye(2), -torch.eye(2)]).requires_grad_(True)
    found = root_or_nan(matrices)
    assert torch.equal(found[0], torch.linalg.cholesky(matrices[0])) and found[1].isnan().all()
    found[0].sum().backward()
    assert torch.isfinite(matrices.grad[0]).all()
