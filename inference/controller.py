"""A controller that learns how many units to add to each layer, by REINFORCE with a value baseline.

Policy. An LSTM takes one step for each hidden layer. It first reads a state s, a fixed random vector, and then the
probabilities of the step before; a softmax on each step gives the probabilities of adding 0, 1, ... units:

    π(a_1, ..., a_m | s) = Π_i p_i(a_i)

Learning. The reward R of the proposed net is only seen, not differentiated, so the policy climbs the score function

    ∇ E[R] = E[ (R - V(s)) ∇ log π(a | s) ]

by one sample each time (Williams 1992). The baseline V, an affine map of the state that regresses on R, leaves the
expectation as it is, since E[∇ log π] = 0, and takes the better part of the variance. The authors' V is a deeper
net; since s never changes, V(s) is one learned number, whatever the map is.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pyroclaw.streams import Streams

INITIAL_RANGE = 0.08  # weights start uniformly within ± this


class Controller:
    """The policy and its baseline, each with an Adam of its own.

    :param layers: how many numbers to propose.
    :param choices: each is one of 0, ..., choices - 1.
    :param streams: for the initial weights and the state; proposals take theirs when they are made.

    >>> Controller(3, 30, Streams([0], "doc")).log_probabilities().shape
    torch.Size([3, 30])
    """

    def __init__(
        self, layers: int, choices: int, streams: Streams, units: int = 100, lr: float = 1e-3, lr_value: float = 5e-3
    ) -> None:
        self.layers = layers
        # made on "meta", where torch draws no initial values from its global generator
        self.lstm = nn.LSTM(choices, units, num_layers=2, device="meta").to_empty(device=streams.device)
        self.output = nn.Linear(units, choices, device="meta").to_empty(device=streams.device)
        self.value = nn.Linear(choices, 1, device="meta").to_empty(device=streams.device)
        self.policy = [*self.lstm.parameters(), *self.output.parameters()]
        with torch.no_grad():
            for parameter in [*self.policy, *self.value.parameters()]:
                parameter.uniform_(-INITIAL_RANGE, INITIAL_RANGE, generator=streams.generators[0])
        self.state = streams.normal(1, choices)
        self.adams = torch.optim.Adam(self.policy, lr=lr), torch.optim.Adam(self.value.parameters(), lr=lr_value)

    def log_probabilities(self) -> Tensor:
        """log p_i of each layer and choice [layers, choices]."""
        step, memory, rows = self.state, None, []
        for _ in range(self.layers):
            hidden, memory = self.lstm(step, memory)
            rows.append(self.output(hidden).log_softmax(-1))
            step = rows[-1].exp()
        return torch.cat(rows)

    def propose(self, streams: Streams) -> list[int]:
        """A sample of the policy."""
        with torch.no_grad():
            probabilities = self.log_probabilities().exp()
        return torch.multinomial(probabilities, 1, generator=streams.generators[0]).flatten().tolist()

    def baseline(self) -> Tensor:
        """V(s)."""
        return self.value(self.state).squeeze()

    def surrogate(self, actions: Sequence[int], reward: float) -> Tensor:
        """-(R - V(s)) log π(a | s), whose gradient in the policy is minus the estimator."""
        advantage = reward - self.baseline().detach()
        chosen = torch.tensor(actions, device=self.state.device)[:, None]
        return -advantage * self.log_probabilities().gather(1, chosen).sum()

    def update(self, actions: Sequence[int], reward: float) -> None:
        """One step of the policy and one of its baseline, after one trial."""
        losses = self.surrogate(actions, reward), (self.baseline() - reward).square()
        for adam, loss in zip(self.adams, losses, strict=True):
            adam.zero_grad()
            loss.backward()
            adam.step()

    def tensors(self) -> dict[str, Tensor]:
        """All that is needed to go on: weights, the state, and what the optimisers remember."""
        modules = {"lstm": self.lstm, "output": self.output, "value": self.value}
        kept = {f"{name}.{key}": v.detach() for name, one in modules.items() for key, v in one.named_parameters()}
        for adam, name in zip(self.adams, ("policy", "value"), strict=True):
            for number, memory in enumerate(adam.state.values()):
                kept |= {f"{name}.{number}.{key}": memory[key] for key in ("exp_avg", "exp_avg_sq")}
        return kept | {"state": self.state}
