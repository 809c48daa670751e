"""A stream of tasks: they come one by one, the program may end in between, and nobody says which task is asked about.

python docs/tutorials/task_stream.py
"""

import tempfile

import numpy as np
from sklearn.datasets import load_digits

from pyroclaw import Learner


def main(epochs: float = 30) -> np.ndarray:
    """For each pair of digits: right answers if the task is named, and how often it was inferred."""
    digits = load_digits()
    images, labels = (digits.images / 16).astype("float32"), digits.target
    with tempfile.TemporaryDirectory() as folder:
        Learner("claw", net=(50, 50), epochs=epochs, batch_size=64).save(folder)
        for first in range(0, 10, 2):  # each turn could be another process, on another day
            learner = Learner.load(folder)
            own = (labels == first) | (labels == first + 1)
            learner.learn(images[own], labels[own], name=f"{first} or {first + 1}")
            learner.save(folder)
        learner = Learner.load(folder)
    rows = []
    for name, own_labels in learner.tasks.items():
        own = np.isin(labels, own_labels)
        named = np.mean(learner.predict(images[own], task=name) == labels[own])
        inferred = np.mean(learner.infer_task(images[own], samples=10) == name)
        print(f"{name}: {100 * named:.0f} % right if the task is named, which is inferred in {100 * inferred:.0f} %")
        rows.append((named, inferred))
    return np.array(rows)


if __name__ == "__main__":
    main()
