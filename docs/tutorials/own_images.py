"""Your own images: a folder of pictures by class, two tasks, and how sure the answers are.

python docs/tutorials/own_images.py
"""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from torchvision.datasets import ImageFolder

from pyroclaw import Learner
from pyroclaw.data import NetPreset

SHAPES = {"square": (3, 13, 3, 13), "tall": (1, 15, 6, 10), "wide": (6, 10, 1, 15), "corner": (0, 8, 0, 8)}


def pictures(folder: Path, names: tuple[str, ...]) -> Path:
    """folder/NAME/0.png and so on: a bright shape on noise. Yours are photographs, of course."""
    rng = np.random.default_rng(0)
    for name in names:
        (folder / name).mkdir(parents=True)
        top, bottom, left, right = SHAPES[name]
        for number in range(60):
            image = rng.integers(0, 120, (16, 16, 3), dtype=np.uint8)
            image[top:bottom, left:right] += 100
            Image.fromarray(image).save(folder / name / f"{number}.png")
    return folder


def main(epochs: float = 20) -> dict[str, float]:
    """The share of right answers in each task."""
    with tempfile.TemporaryDirectory() as place:
        # any torch Dataset of (image, label) will do; without a transform its images are Pillow's
        tasks = {
            "boxes": ImageFolder(str(pictures(Path(place) / "boxes", ("square", "tall")))),
            "others": ImageFolder(str(pictures(Path(place) / "others", ("wide", "corner")))),
        }
        net = NetPreset("cnn", filters=8, blocks=2)
        learner = Learner("claw", net=net, epochs=epochs, batch_size=32)
        for name, task in tasks.items():
            report = learner.learn(task, name=name)
            print(f"{name}: {100 * report.validation:.0f} % of what was set aside")
        right = {}
        for name, task in tasks.items():
            images = np.stack([np.asarray(image) for image, _ in task])
            right[name] = float(np.mean(learner.predict(images, task=name) == task.targets))
            unsure = learner.uncertainty(images, task=name).total
            print(f"{name} at the end: {100 * right[name]:.0f} %, least sure of {task.imgs[unsure.argmax()][0]}")
        return right


if __name__ == "__main__":
    main()
