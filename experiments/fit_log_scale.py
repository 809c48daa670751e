"""Refit the sigmoid approximation of the log-scale KL for CLAW's posterior, and compare the approximations.

The posterior of a tied weight has the noise-to-signal ratio ρ = b² p(1-p)/(1+bp)². It is largest, p/(1-p), at b = -1,
so p up to 0.9999 means ρ up to 1e4; and at p = ½ it falls to 1e-4 when |b| falls to 0.02, a neuron that is hardly
adapted. That is the default range; outside of it the sigmoid is within 1e-5 of its ends.

python experiments/fit_log_scale.py
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table
from scipy.integrate import quad
from scipy.optimize import least_squares

from pyroclaw.distributions import MOLCHANOV_FIT, log_scale_kl_from_ratio, sigmoid_fit_kl
from pyroclaw.errors import InputError


@dataclass(frozen=True)
class Options:
    """Refit k1, k2, k3 of the sigmoid fit by least squares on a grid even in log ρ, and print the errors."""

    low: float = 1e-4
    """Smallest noise-to-signal ratio ρ of the fit."""
    high: float = 1e4
    """Largest noise-to-signal ratio ρ of the fit."""
    points: int = 401
    """Points of the grid."""


@dataclass(frozen=True)
class Fit:
    """The fitted k1, k2, k3 and the largest error of each approximation on the grid."""

    constants: tuple[float, float, float]
    errors: dict[str, float]


def main(argv: list[str] | None = None) -> int:
    options = tyro.cli(Options, args=argv)
    try:
        result = fit(options)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    table = Table("approximation", title=f"KL to the log-scale prior, ρ from {options.low:g} to {options.high:g}")
    table.add_column("largest error", justify="right")
    for name, largest in result.errors.items():
        table.add_row(name, f"{largest:.1e}")
    console = Console()
    console.print(table)
    console.print("k1, k2, k3 = " + ", ".join(f"{k:.5f}" for k in result.constants))
    return 0


def fit(options: Options) -> Fit:
    if not 0 < options.low < min(options.high, 1) or options.points < 4:
        raise InputError("The fit needs --low between 0 and 1, --high above it, and at least 4 --points.")
    rho = torch.logspace(math.log10(options.low), math.log10(options.high), options.points, dtype=torch.float64)
    exact = log_scale_kl_from_ratio(rho)

    def errors_of(constants: np.ndarray) -> np.ndarray:
        return (sigmoid_fit_kl(rho, *constants.tolist()) - exact).numpy()

    k1, k2, k3 = least_squares(errors_of, MOLCHANOV_FIT, xtol=1e-12, ftol=1e-12).x.tolist()
    # Kingma et al. give no constant for their cubic: take the one that makes its largest error least.
    cubic = (cubic_fit_kl(rho) - exact)[rho <= 1]
    errors = {
        "exact, against quadrature": exact - torch.tensor([quadrature(r)[0] for r in rho.tolist()], dtype=rho.dtype),
        "sigmoid, refitted": sigmoid_fit_kl(rho, k1, k2, k3) - exact,
        "sigmoid, Molchanov et al. 2017": sigmoid_fit_kl(rho, *MOLCHANOV_FIT) - exact,
        "cubic, Kingma et al. 2015, ρ ≤ 1": cubic - (cubic.max() + cubic.min()) / 2,
    }
    return Fit((k1, k2, k3), {name: error.abs().max().item() for name, error in errors.items()})


def cubic_fit_kl(rho: torch.Tensor) -> torch.Tensor:
    """The cubic fit of Kingma et al. (2015), meant for ρ ≤ 1, up to a constant."""
    return -(0.5 * rho.log() + 1.16145124 * rho - 1.50204118 * rho**2 + 0.58629921 * rho**3)


def quadrature(rho: float) -> tuple[float, float]:
    """KL and dKL/dlog ρ by adaptive quadrature, to about 1e-12, without the series and the Dawson function.

    With V = 1 and M = 1/√ρ: KL = -½ log(2πe) + E log|M + ε|, and by Stein's identity dKL/dM = E ε log|M + ε|. Folding
    ε onto (0, ∞) leaves integrands of ε and its distance d from M, with a logarithmic singularity at d = 0; next to it
    the variable of integration is the cube root of d, which smooths it and leaves d free of cancellation.
    """
    m = rho**-0.5
    far = 14.0  # the normal density is below 1e-42 from here on

    def integral(f: Callable[[float, float], float], size: float) -> float:
        def part(g: Callable[[float], float], low: float, high: float) -> float:
            return quad(g, low, high, epsabs=1e-13 * size, epsrel=1e-12, limit=200)[0]

        if m / 2 > far:
            return part(lambda e: f(e, m - e), 0, far)
        return math.fsum(
            [
                part(lambda e: f(e, m - e), 0, m / 2),
                part(lambda x: 3 * x**2 * f(m - x**3, x**3), 0, (m / 2) ** (1 / 3)),
                part(lambda x: 3 * x**2 * f(m + x**3, x**3), 0, m ** (1 / 3)),
                part(lambda e: f(e, e - m), 2 * m, 2 * m + far),
            ]
        )

    def density(e: float) -> float:
        return math.exp(-0.5 * e * e) / math.sqrt(2 * math.pi)

    value = integral(lambda e, d: density(e) * (math.log(e + m) + math.log(d)), size=1.0)
    slope = integral(lambda e, d: density(e) * e * math.log1p(2 * min(e, m) / d), size=min(m, 1 / m))
    return value - 0.5 * math.log(2 * math.pi * math.e), -0.5 * m * slope


if __name__ == "__main__":
    sys.exit(main())
