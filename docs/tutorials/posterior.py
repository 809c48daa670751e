"""Inspecting the posterior: what adapts, how far, and which of two methods foresees better, by arviz.

python docs/tutorials/posterior.py
"""

import warnings

import numpy as np

from pyroclaw import Learner


def main(epochs: float = 30) -> str:
    """The method that leave-one-out cross-validation prefers."""
    import arviz as az

    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    data = {
        name: ((rng.normal(size=(300, 10)) + 2 * rng.normal(size=(3, 10))[y]).astype("float32"), y)
        for name in ("spring", "autumn")
    }
    posteriors = {}
    for method in ("claw", "vcl"):
        learner = Learner(method, net=(20, 20), epochs=epochs, batch_size=32, replicates=4)  # four chains
        for name, task in data.items():
            learner.learn(task, name=name)
        posteriors[method] = learner.to_arviz(data, draws=200)
    claw = posteriors["claw"]
    gain = claw.posterior.gain.groupby("unit_layer").mean()  # chain, draw, task, layer
    print(az.summary(gain.to_dataset(name="gain"), kind="stats"))
    print(az.summary(claw, var_names=["weight_rms"], kind="stats"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few draws: arviz tells of Pareto k
        table = az.compare(posteriors)
    print(table[["rank", "elpd_loo", "se", "dse"]])
    return str(table.index[0])


if __name__ == "__main__":
    main()
