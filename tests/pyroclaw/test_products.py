"""Products by either library are the same numbers within float32, with the same gradients."""

import math

import pytest
import torch

from pyroclaw import products
from pyroclaw.products import linear, product

ways = pytest.mark.parametrize("library", ["oneDNN", "MKL"])


def take(monkeypatch, library):
    """Whatever the size of a product."""
    monkeypatch.setattr(products, "SMALL", 0 if library == "oneDNN" else math.inf)
    monkeypatch.setattr(products, "FEW", 0)


def exact(x, weight):
    return x.double() @ weight[:, :-1].double() + weight[:, -1:].double()


@ways
@pytest.mark.parametrize("replicates", [1, 3])
def test_a_linear_map_and_its_gradients_are_those_of_float64(monkeypatch, library, replicates):
    take(monkeypatch, library)
    x, weight = torch.randn(replicates, 50, 20), torch.randn(replicates, 21, 7)
    slope = torch.randn(replicates, 50, 7)
    found, expected = linear(x.requires_grad_(), weight.requires_grad_()), exact(x, weight)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    for own, other in zip(
        torch.autograd.grad(found, (x, weight), slope), torch.autograd.grad(expected, (x, weight), slope), strict=True
    ):
        assert own.is_contiguous()
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-5)


def test_gradients_are_those_of_differences():
    x, weight = (torch.randn(2, *shape, dtype=torch.float64, requires_grad=True) for shape in ((5, 3), (4, 2)))
    assert torch.autograd.gradcheck(linear, (x, weight))
    assert torch.autograd.gradcheck(products._Linear.apply, (x, weight))


@ways
def test_only_gradients_that_are_asked_for_are_made(monkeypatch, library):
    take(monkeypatch, library)
    x, weight = torch.randn(1, 5, 3), torch.randn(1, 4, 2)
    linear(x, weight.requires_grad_()).sum().backward()
    assert x.grad is None and weight.grad.shape == weight.shape
    linear(x.requires_grad_(), weight.detach()).sum().backward()
    assert x.grad.shape == x.shape


@ways
def test_torch_func_sees_through_it(monkeypatch, library):
    take(monkeypatch, library)
    x, weight = torch.randn(1, 5, 3), torch.randn(1, 4, 2)
    slope = torch.func.grad(lambda w: linear(x, w).square().sum())(weight)
    expected = torch.autograd.functional.jacobian(lambda w: exact(x, w).square().sum(), weight.double())
    torch.testing.assert_close(slope.double(), expected, rtol=1e-4, atol=1e-4)


@ways
def test_a_replicates_bits_do_not_depend_on_its_company(monkeypatch, library):
    take(monkeypatch, library)
    a, b = torch.randn(3, 40, 30), torch.randn(3, 30, 20)
    assert torch.equal(product(a, b)[1:2], product(a[1:2], b[1:2]))


def test_only_matrices_that_lie_row_by_row_or_column_by_column_come_to_onednn():
    a = torch.randn(2, 6, 5)
    assert products._dense(a) is a and products._dense(a.mT).data_ptr() == a.data_ptr()
    assert products._dense(a[:, :-1]).data_ptr() == a.data_ptr()  # each of the two lies row by row
    assert products._dense(a[..., 1:3]).is_contiguous() and products._dense(a[:, :1].expand(2, 6, 5)).is_contiguous()


def test_other_types_and_turned_matrices(monkeypatch):
    take(monkeypatch, "oneDNN")
    a, b = torch.randn(2, 6, 5), torch.randn(2, 6, 4)
    torch.testing.assert_close(product(a.mT, b), torch.bmm(a.mT, b))
    torch.testing.assert_close(product(a[:, 1:, 1:3].mT, b[:, 1:, :2]), torch.bmm(a[:, 1:, 1:3].mT, b[:, 1:, :2]))
    assert product(a.mT.double(), b.double()).dtype == torch.float64
    assert product(a.mT.to("meta"), b.to("meta")).shape == (2, 5, 4)


def test_only_large_products_come_to_onednn():
    by = [
        products._by_onednn(torch.ones(1, 256, k), torch.ones(1, k, m)) for k, m in ((784, 100), (784, 10), (100, 100))
    ]
    assert by == [products.ONEDNN is not None, False, False]
