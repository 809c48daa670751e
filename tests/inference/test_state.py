"""What is packed comes back the same, bit by bit and thing by thing; nothing else can be made."""

import json
from dataclasses import dataclass

import pyro.distributions as dist
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pyroclaw.distributions import LogScale, Tempered
from pyroclaw.errors import InputError
from pyroclaw.inference.adaptation import Adaptation
from pyroclaw.inference.controller import Controller
from pyroclaw.inference.method import Budget
from pyroclaw.inference.state import Packer, Unpacker
from pyroclaw.streams import Streams

NUMBERS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
TENSORS = st.tuples(SHAPES, st.sampled_from([torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool])).map(
    lambda pair: (torch.arange(torch.Size(pair[0]).numel()).reshape(pair[0]) % 5).to(pair[1])
)
TREES = st.recursive(
    NUMBERS | TENSORS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3)
        | st.tuples(inner, inner)
        | st.builds(Budget, inner, inner)
    ),
    max_leaves=10,
)


def again(thing, known=None, new=None):
    packer = Packer(known)
    tree = json.loads(json.dumps(packer.pack(thing), allow_nan=False))
    return Unpacker(packer.tensors, known).unpack(tree, new)


def equal(one, other):
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype and torch.equal(one, other)
        assert one.stride() == other.stride() or not one.numel()  # of no numbers there is no order
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            equal(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            equal(mine, theirs)
    else:
        assert one == other


@given(TREES)
def test_whatever_is_packed_comes_back(tree):
    equal(again(tree), tree)


@given(st.permutations(range(4)), st.sets(st.integers(0, 3)))
def test_strides_come_back(order, expanded):
    sizes = [1 if dim in expanded else dim + 2 for dim in range(4)]
    tensor = torch.randn(sizes).permute(*order)
    tensor = tensor.expand([3 if size == 1 else size for size in tensor.shape])
    equal(again(tensor), tensor)


def test_what_is_one_thing_stays_one_thing():
    weight, shared = torch.ones(2), [1]
    one, two, (three, four) = again([weight, {"w": weight}, (shared, shared)])
    assert two["w"] is one and three is four


def test_known_things_are_not_stored():
    data = torch.zeros(1000)
    packer = Packer({"images": data})
    assert again({"x": data}, {"images": data})["x"] is data
    packer.pack({"x": data})
    assert packer.tensors == {}


@pytest.mark.parametrize(
    "law",
    [
        dist.Normal(torch.zeros(2, 3), torch.ones(2, 3)),
        Tempered(dist.Normal(torch.zeros(3), 2 * torch.ones(3)), 0.5, 3.0, lam_above=1.0),
        dist.MultivariateNormal(torch.zeros(2), torch.eye(2)),
    ],
)
def test_a_distribution_comes_back(law):
    value = torch.randn(law.batch_shape + law.event_shape)
    back = again(law)
    assert type(back) is type(law) and torch.equal(back.log_prob(value), law.log_prob(value))
    assert back.batch_shape == law.batch_shape and again(LogScale((3, 1))).batch_shape == (3, 1)


def test_streams_go_on_where_they_were():
    streams = Streams([1, 2], "x")
    streams.normal(2, 7)
    back = again(streams)
    assert torch.equal(back.normal(2, 5), streams.normal(2, 5))


def test_modules_and_optimisers_are_filled_in():
    """The controller of RCL: what it learned goes on, in the optimiser's moments too."""
    old, new = Controller(2, 4, Streams([0], "a")), Controller(2, 4, Streams([9], "b"))
    for reward in (0.3, 0.9):
        old.update([1, 2], reward)
    back = again(old, new=new)
    assert back is new and back.policy[0] is back.lstm.weight_ih_l0
    for one in (old, back):
        one.update([3, 0], 0.5)
    assert torch.equal(old.log_probabilities(), back.log_probabilities())


def test_a_named_tuple_keeps_its_class():
    back = again(Adaptation(torch.ones(1), torch.zeros(1), torch.ones(1)))
    assert isinstance(back, Adaptation) and back.s is not back.p


@dataclass
class Stranger:
    x: int = 0


def test_a_foreign_object_is_not_stored_but_named():
    with pytest.raises(TypeError, match=r"weights\.0 of a method is a .*Stranger"):
        Packer().pack({"weights": [Stranger()]})


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "builtins:eval", "pyroclaw.errors:choose", "x"])
def test_no_class_but_ours_is_made(name):
    with pytest.raises(InputError, match="never stores"):
        Unpacker({}).unpack({"class": name, "state": {}, "number": 0})


def test_a_generator_of_another_kind_of_device_begins_anew():
    """Its state means nothing here: that of a GPU has 16 bytes, that of a CPU 5056."""
    state = {"generator": {"tensor": "state", "number": 1}, "on": "cuda:0", "number": 0}
    found = Unpacker({"state": torch.zeros(16, dtype=torch.uint8)}).unpack(state)
    assert isinstance(found, torch.Generator) and found.device.type == "cpu"
