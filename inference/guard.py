"""A step that is no longer a number is not taken: training stops, and says at which site.

Losses and gradients are looked at before the parameters are moved, so what is kept is the last good state. The check of
the gradients is their sum, one number a tensor, since NaN and infinity survive any sum. Only if a sum is not finite,
which huge but finite gradients can bring about too, is every entry looked at.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pyroclaw.inference.position import leaves

REMEDY = "the state before this step is kept: lower the learning rate, or look for extreme values in the data"


class Diverged(ArithmeticError):
    """The ELBO or a gradient is no longer a number."""


def check_elbo(losses: Tensor, terms: Mapping[str, Tensor], task: str, step: int) -> None:
    """Of each replicate; the summand that is not finite is named by its site."""
    if torch.isfinite(losses).all():
        return
    sites = [f"{name!r}" for name, term in terms.items() if not torch.isfinite(term).all()] or ["their sum"]
    value = losses[~torch.isfinite(losses)][0].neg().item()
    raise Diverged(f"the ELBO of task {task!r} is {value} in step {step + 1}, by site {', '.join(sites)}; {REMEDY}")


def check_gradients(pair: Any, trained: Sequence[Tensor], task: str, step: int) -> None:
    """Of the trained parameters, named by where the pair keeps them."""
    gradients = {id(one): one.grad for one in trained if one.grad is not None}
    if not gradients or torch.isfinite(torch.stack([gradient.sum() for gradient in gradients.values()])).all():
        return
    wrong = {key for key, gradient in gradients.items() if not torch.isfinite(gradient).all()}
    if wrong:
        names = [f"{path!r}" for path, leaf in leaves(pair).items() if id(leaf) in wrong]
        raise Diverged(
            f"the gradient of {', '.join(names)} is not finite in step {step + 1} of task {task!r}; {REMEDY}"
        )
