"""A method as plain data: its tensors by name, and a tree of JSON that says where each belongs.

A method declares no state. Whatever can be reached from it is walked: tensors, random generators, dictionaries, lists,
named tuples, dataclasses, distributions and other objects by their attributes. So a method that gains an attribute is
stored whole without a line about it. What is reached twice is stored once and is again one thing when read.

Nothing is unpickled. Reading calls no constructor: an object is made empty and its attributes are set, and only of a
class of pyroclaw or of torch's and Pyro's distributions that is imported already. Modules and optimisers cannot be
made so; they are filled in where a new method has them.

Bits are kept: an expanded or transposed tensor gets its strides back, since sums may be taken in another order without.
"""

import math
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from pyroclaw.errors import InputError

ALLOWED = ("pyroclaw.", "torch.distributions.", "pyro.distributions.")  # modules whose classes may be made


class Packer:
    """Writes a tree; `tensors` has what it refers to.

    :param known: what the reader will have already, by name: data that need not be stored.

    >>> packer = Packer()
    >>> packer.pack([0.1, torch.ones(2)], "rates"), list(packer.tensors)
    ({'list': [0.1, {'tensor': 'rates.1', 'number': 1}], 'number': 0}, ['rates.1'])
    """

    def __init__(self, known: Mapping[str, Any] | None = None) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._known = {id(thing): name for name, thing in (known or {}).items()}
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []  # an id is that of one thing only while it lives

    def pack(self, thing: Any, path: str = "") -> Any:
        if thing is None or isinstance(thing, bool | int | str):
            return thing
        if isinstance(thing, float):
            return thing if math.isfinite(thing) else {"float": str(thing)}
        if isinstance(thing, torch.Size):
            return {"size": list(thing)}
        if isinstance(thing, torch.device | torch.dtype):
            return {type(thing).__name__: str(thing).removeprefix("torch.")}
        if id(thing) in self._known:
            return {"known": self._known[id(thing)]}
        if id(thing) in self._numbers:
            return {"same": self._numbers[id(thing)]}
        number = self._numbers[id(thing)] = len(self._alive)
        self._alive.append(thing)
        return self._pack_new(thing, path) | {"number": number}

    def _pack_new(self, thing: Any, path: str) -> dict[str, Any]:
        def inside(key: Any, value: Any) -> Any:
            return self.pack(value, f"{path}.{key}" if path else str(key))

        if isinstance(thing, Tensor):
            return self._tensor(thing, path)
        if isinstance(thing, torch.Generator):
            return {"generator": inside("state", thing.get_state()), "on": str(thing.device)}
        if isinstance(thing, nn.Module):
            own = {name: inside(name, parameter) for name, parameter in thing.named_parameters()}
            return {"module": own}
        if isinstance(thing, torch.optim.Optimizer):
            return {"optimiser": inside("state", thing.state_dict())}
        if isinstance(thing, dict):
            if all(isinstance(key, str) for key in thing):
                return {"dict": {key: inside(key, value) for key, value in thing.items()}}
            return {"pairs": [[self.pack(key), inside(key, value)] for key, value in thing.items()]}
        if isinstance(thing, list) or type(thing) is tuple:
            return {type(thing).__name__: [inside(i, value) for i, value in enumerate(thing)]}
        name = f"{type(thing).__module__}:{type(thing).__qualname__}"
        if hasattr(thing, "_fields"):
            return {"class": name, "fields": [inside(field, getattr(thing, field)) for field in thing._fields]}
        if name.startswith(ALLOWED):
            return {"class": name, "state": {key: inside(key, value) for key, value in vars(thing).items()}}
        raise TypeError(f"{path} of a method is a {name}, which cannot be stored: keep numbers, tensors and containers")

    def _tensor(self, tensor: Tensor, path: str) -> dict[str, Any]:
        name = path if path not in self.tensors else f"{path}+{len(self.tensors)}"
        node: dict[str, Any] = {"tensor": name}
        own = tensor.detach()
        if not own.is_contiguous():
            node |= {"shape": list(own.shape), "stride": list(own.stride())}
            for dim, stride in enumerate(own.stride()):
                own = own.narrow(dim, 0, min(1, own.shape[dim])) if stride == 0 else own
        self.tensors[name] = own.cpu().clone(memory_format=torch.contiguous_format)
        if isinstance(tensor, nn.Parameter):
            node["parameter"] = True
        return node


class Unpacker:
    """Reads what :class:`Packer` wrote.

    :param tensors: by name.
    :param known: the same things by the same names.
    """

    def __init__(
        self, tensors: Mapping[str, Tensor], known: Mapping[str, Any] | None = None, device: torch.device | str = "cpu"
    ) -> None:
        self.tensors, self.known, self.device = tensors, known or {}, torch.device(device)
        self._made: dict[int, Any] = {}

    def unpack(self, node: Any, new: Any = None) -> Any:
        """:param new: what a new method has in this place, whose modules and optimisers are filled in."""
        if not isinstance(node, dict):
            return node
        if "same" in node:
            return self._made[node["same"]]
        if "known" in node:
            return self.known[node["known"]]
        if "class" in node:
            return self._object(node, new)
        made = self._plain(node, new)
        if "number" in node:
            self._made[node["number"]] = made
        return made

    def _plain(self, node: dict[str, Any], new: Any) -> Any:
        match next(iter(node)):
            case "tensor":
                return self._tensor(node)
            case "float":
                return float(node["float"])
            case "size":
                return torch.Size(node["size"])
            case "device":
                return self.device
            case "dtype":
                return getattr(torch, node["dtype"])
            case "generator":
                generator = torch.Generator(self.device)
                if torch.device(node["on"]).type == self.device.type:  # other devices have states of another kind
                    generator.set_state(self.unpack(node["generator"]).cpu())
                return generator
            case "module":
                with torch.no_grad():
                    for name, parameter in new.named_parameters():
                        parameter.copy_(self.unpack(node["module"][name]))
                        self._made[node["module"][name]["number"]] = parameter
                return new
            case "optimiser":
                new.load_state_dict(self.unpack(node["optimiser"]))
                return new
            case "dict":
                return {key: self.unpack(value, _inside(new, key)) for key, value in node["dict"].items()}
            case "pairs":
                return {self.unpack(key): self.unpack(value) for key, value in node["pairs"]}
            case "list":
                return [self.unpack(value, _inside(new, i)) for i, value in enumerate(node["list"])]
            case "tuple":
                return tuple(self.unpack(value, _inside(new, i)) for i, value in enumerate(node["tuple"]))
        raise InputError(f"a checkpoint has a node {sorted(node)} that this version of pyroclaw does not know")

    def _object(self, node: dict[str, Any], new: Any) -> Any:
        module, _, qualname = node["class"].partition(":")
        cls = getattr(sys.modules.get(module), qualname, None) if f"{module}.".startswith(ALLOWED) else None
        if not isinstance(cls, type):
            raise InputError(f"a checkpoint has an object of class {node['class']}, which pyroclaw never stores")
        if "fields" in node:
            made: Any = tuple.__new__(cls, [self.unpack(field) for field in node["fields"]])
            self._made[node["number"]] = made
            return made
        made = new if type(new) is cls else object.__new__(cls)
        self._made[node["number"]] = made  # before its attributes, which may lead back to it
        state = {key: self.unpack(value, vars(made).get(key)) for key, value in node["state"].items()}
        vars(made).clear()
        vars(made).update(state)
        return made

    def _tensor(self, node: dict[str, Any]) -> Tensor:
        tensor = self.tensors[node["tensor"]].to(self.device, copy=True)
        if "stride" in node:
            laid_out = torch.empty_strided(tensor.shape, node["stride"], dtype=tensor.dtype, device=self.device)
            tensor = laid_out.copy_(tensor).expand(node["shape"])
        return nn.Parameter(tensor) if node.get("parameter") else tensor


def _inside(new: Any, key: Any) -> Any:
    if isinstance(new, dict):
        return new.get(key)
    return new[key] if isinstance(new, list | tuple) and key < len(new) else None
