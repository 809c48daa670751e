"""The benchmark of the selection: the loop it compares with is the criterion's own, and it reports a ratio."""

import re

import torch

from pyroclaw.experiments.bench_selection import main, one_at_a_time, trace
from pyroclaw.inference.inducing import JITTER


def test_the_trace_is_what_the_chosen_points_leave_unexplained():
    phi, chosen = torch.randn(30, 4, dtype=torch.float64), torch.arange(3)
    kernel, own = phi @ phi.T, phi[chosen] @ phi[chosen].T + JITTER * torch.eye(3)
    left = [kernel[n, n] - kernel[n, chosen] @ torch.linalg.solve(own, kernel[chosen, n]) for n in range(30)]
    torch.testing.assert_close(trace(phi, chosen), torch.stack(left).sum())


def test_one_proposal_at_a_time_only_takes_what_lowers_the_trace():
    phi, chosen = torch.randn(60, 6, dtype=torch.float64), torch.arange(3)
    values = [trace(phi, one_at_a_time(phi, chosen, places)) for places in range(4)]
    assert values == sorted(values, reverse=True) and values[-1] < values[0]


def test_it_reports_a_ratio(capsys):
    sizes = ["--examples", "60", "--points", "5", "--features", "4", "--replicates", "2", "--places", "1"]
    assert main([*sizes, "--rounds", "1"]) == 0
    assert re.search(r"5 of 60 examples, 5 features, 2 repetitions: .* times as long", capsys.readouterr().out)
