"""Tasks of a user's own: every kind of data, every method, and every way to get it wrong."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from pyroclaw import Learner
from pyroclaw.data import NetPreset
from pyroclaw.errors import InputError
from pyroclaw.inference.position import leaves
from pyroclaw.inference.svi import Diverged
from pyroclaw.models import METHODS

FEWER = {"rcl": {"trials": 2, "choices": 3}, "vcl_coreset": {"points": 5}, "claw_coreset": {"points": 5}}


def blob(labels, size=60, shape=(6,), seed=0):
    """Examples around a centre of each label."""
    rng = np.random.default_rng(seed)
    y = np.array(labels)[np.arange(size) % len(labels)]
    centres = {label: np.random.default_rng(100 + label).normal(size=shape) * 3 for label in labels}
    return np.stack([centres[int(label)] + 0.3 * rng.normal(size=shape) for label in y]).astype("float32"), y


def small(method="vcl", **more):
    return Learner(method, net=(8,), **({"epochs": 5, "batch_size": 16, "settings": FEWER.get(method)} | more))


@pytest.fixture(scope="module")
def learned():
    """CLAW after two tasks of unequal heads."""
    learner = small("claw", epochs=40)
    learner.learn(blob([3, 7]), name="birds")
    learner.learn(blob([1, 5, 9]), name="fish")
    return learner


@pytest.mark.parametrize("page", ["README.md", "docs/learner.md"])
def test_the_example_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[3] / page).read_text(encoding="utf-8")
    (example,) = [code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "Learner(" in code]
    images, labels = blob([3, 7])
    names = {"images": images, "labels": labels}
    exec(compile(example, page, "exec"), names)
    assert names["learner"].tasks and len(list(tmp_path.iterdir())) == 1


# ---- every method, every kind of data --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_a_saved_learner_answers_and_learns_on_exactly_as_the_one_that_was_saved(name, tmp_path):
    learner = small(name, epochs=2)
    learner.learn(blob([3, 7]), name="birds")
    learner.save(tmp_path)
    again = Learner.load(tmp_path)
    for one in (learner, again):
        one.learn(blob([1, 5, 9]), name="fish")
    assert again.tasks == learner.tasks == {"birds": [3, 7], "fish": [1, 5, 9]}
    x, _ = blob([1, 5, 9], seed=2)
    for task in learner.tasks:
        for samples in (0, 2):
            mine, theirs = (one.predict_proba(x, task, samples) for one in (learner, again))
            assert np.array_equal(mine, theirs) and np.allclose(mine.sum(1), 1, atol=1e-5)
    mine, theirs = (leaves(one.method) for one in (learner, again))
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[path], theirs[path]) for path in mine if isinstance(mine[path], torch.Tensor))


@pytest.mark.parametrize(
    "give",
    [
        lambda x, y: ((x, y), {}),
        lambda x, y: (x, {"labels": y}),
        lambda x, y: ((torch.tensor(x), torch.tensor(y)), {}),
        lambda x, y: (TensorDataset(torch.tensor(x), torch.tensor(y)), {}),
        lambda x, y: (DataLoader(TensorDataset(torch.tensor(x), torch.tensor(y)), batch_size=7), {}),
    ],
)
def test_arrays_tensors_datasets_and_loaders_are_the_same_task(give):
    x, y = blob([3, 7])
    data, more = give(x, y)
    learner, plain = small(epochs=1), small(epochs=1)
    learner.learn(data, **more)
    plain.learn((x, y))
    assert np.array_equal(learner.predict_proba(x, "task 1"), plain.predict_proba(x, "task 1"))


def test_pictures_of_bytes_and_a_convolutional_net():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    x = np.clip(rng.integers(0, 60, (40, 8, 8, 3)) + 150 * y[:, None, None, None], 0, 255).astype(np.uint8)
    learner = Learner("claw", net=NetPreset("cnn", filters=4, blocks=2), epochs=20, batch_size=8)
    assert learner.learn(x, y).validation == 1.0
    assert (learner.predict(x, "task 1") == y).all()


def test_one_head_for_the_classes_of_all_tasks():
    learner = small("claw", heads="single", classes=[1, 3, 5, 7], epochs=60, settings={"lr": 0.01})
    learner.learn(blob([3, 7]))
    learner.learn(blob([1, 5]))
    x, y = blob([1, 5], seed=3)
    assert learner.predict_proba(x, "task 2").shape == (60, 4)
    assert np.mean(learner.predict(x, "task 2") == y) > 0.9


def test_replicates_answer_together():
    learner = small("vcl", replicates=3)
    assert learner.learn(blob([3, 7])).elbo.shape[1] == 3
    x, _ = blob([3, 7])
    alone = [small("vcl", seed=seed) for seed in range(3)]
    for one in alone:
        one.learn(blob([3, 7]))
    mean = np.mean([one.predict_proba(x, "task 1") for one in alone], axis=0)
    np.testing.assert_allclose(learner.predict_proba(x, "task 1"), mean, atol=1e-3)


# ---- answers ---------------------------------------------------------------------------------------------------------


def test_the_task_can_be_inferred(learned):
    """From the head that is surest; where the task is right, so is the answer."""
    (birds, _), (fish, y) = blob([3, 7], seed=5), blob([1, 5, 9], seed=5)
    found = learned.infer_task(np.concatenate([birds, fish]))
    assert set(found) <= {"birds", "fish"}
    entropies = {}
    for task, own in learned.tasks.items():
        p = learned.predict_proba(fish, task)
        entropies[task] = -(p * np.log(np.maximum(p, 1e-30))).sum(1) / math.log(len(own))
    expected = np.where(entropies["fish"] < entropies["birds"], "fish", "birds")
    assert (learned.infer_task(fish) == expected).all()
    proba = learned.predict_proba(fish)
    assert proba.shape == (60, 5) and learned.labels == [1, 3, 5, 7, 9]
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-5)
    inside = expected == "fish"
    assert (learned.predict(fish)[inside] == learned.predict(fish, "fish")[inside]).all()
    assert np.mean(learned.predict(fish, "fish") == y) > 0.9


def test_uncertainty_is_that_of_the_predictions(learned):
    x, _ = blob([1, 5, 9], seed=4)
    found = learned.uncertainty(x, "fish", samples=8)
    p = learned.predict_proba(x, "fish", samples=8)
    np.testing.assert_allclose(found.total, -(p * np.log(np.maximum(p, 1e-30))).sum(1), atol=1e-4)
    np.testing.assert_allclose(found.total, found.aleatoric + found.epistemic, atol=1e-5)
    assert (found.epistemic >= 0).all() and (found.total <= math.log(3) + 1e-5).all()
    inferred = learned.uncertainty(x, samples=8)
    assert (inferred.total >= 0).all() and inferred.total.shape == (60,)


def test_what_lies_between_the_classes_is_less_sure_than_what_is_known(learned):
    x, _ = blob([1, 5, 9], seed=4)
    near, between = (learned.uncertainty(one, "fish").total.mean() for one in (x, np.zeros_like(x)))
    assert between > near + 0.3


def test_a_point_has_no_epistemic_uncertainty():
    learner = small("finetune")
    learner.learn(blob([3, 7]))
    assert learner.uncertainty(blob([3, 7])[0], "task 1").epistemic.max() < 1e-6


# ---- shapes and labels -----------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sets(st.integers(-50, 50), min_size=2, max_size=4), min_size=1, max_size=3),
    st.sampled_from([(3,), (2, 3), (4, 4, 1)]),
    st.integers(2, 4),
    st.sampled_from([0.0, 0.3]),
)
def test_any_labels_and_shapes(sets, shape, each, validation):
    learner = Learner("finetune", net=(3,), epochs=1, batch_size=4, validation=validation)
    rng = np.random.default_rng(0)
    for number, labels in enumerate(sets, 1):
        y = np.repeat(sorted(labels), each)
        learner.learn((rng.normal(size=(len(y), *shape)), y))
        x = rng.normal(size=(5, *shape))
        assert set(learner.predict(x, f"task {number}").tolist()) <= labels
        assert learner.predict_proba(x).shape == (5, len(set().union(*sets[:number])))


# ---- guard rails -----------------------------------------------------------------------------------------------------

X, Y = blob([3, 7])
NAN = X.copy()
NAN[3, 2] = np.nan


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (((X, np.full(60, 3)), {}), "one class only, 3"),
        (((X[:0], Y[:0]), {}), "empty"),
        ((DataLoader(TensorDataset(torch.ones(0, 6), torch.ones(0))), {}), "empty"),
        (((NAN, Y), {}), "NaN or infinity"),
        (((X[:, :5], Y), {}), "give images like those"),
        (((X.astype(np.uint8), Y), {}), "give images like those"),
        (((X, Y[:-1]), {}), "one integer for each"),
        (((X, Y + 0.5), {}), "one integer for each"),
        (((X, Y), {"name": "birds"}), "'birds' already"),
        ((X, {}), "a ndarray: give"),
        (("cats", {}), "a str: give"),
    ],
)
def test_a_wrong_task_is_one_sentence_and_the_learner_stays_as_it_was(task, sentence):
    learner = small(epochs=1)
    learner.learn((X, Y), name="birds")
    before = learner.predict_proba(X, "birds")
    data, more = task
    with pytest.raises(InputError, match=sentence) as error:
        learner.learn(data, **more)
    assert "\n" not in str(error.value)
    assert np.array_equal(learner.predict_proba(X, "birds"), before) and list(learner.tasks) == ["birds"]


def test_a_label_outside_the_shared_head():
    learner = small(heads="single", classes=[3, 7])
    with pytest.raises(InputError, match="label 9, which is not among the classes"):
        learner.learn(blob([3, 9]), name="fish")
    assert learner.tasks == {}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "clav"}, "did you mean claw"),
        ({"device": "gpu"}, "device='gpu' cannot be used"),
        ({"device": "cuda:99"}, "device='cuda:99' cannot be used"),
        ({"settings": {"betta": 1}}, "did you mean beta"),
        ({"heads": "both"}, "'single' or 'multi'"),
        ({"heads": "single"}, "classes= must name"),
        ({"epochs": 0}, "epochs=0"),
        ({"validation": 0.9}, "share from 0 to 0.5"),
    ],
)
def test_wrong_options_are_one_sentence(options, sentence):
    with pytest.raises(InputError, match=sentence) as error:
        Learner(**({"method": "claw"} | options))
    assert "\n" not in str(error.value)


def test_questions_that_have_no_answer():
    learner = small(epochs=1)
    for ask in (learner.predict, learner.infer_task, learner.uncertainty):
        with pytest.raises(InputError, match="no task yet"):
            ask(X)
    learner.learn((X, Y), name="birds")
    with pytest.raises(InputError, match="did you mean birds"):
        learner.predict(X, "bird")
    with pytest.raises(InputError, match="give images like those"):
        learner.predict(X[:, :3], "birds")
    with pytest.raises(InputError, match="NaN"):
        learner.predict(NAN, "birds")


@pytest.mark.parametrize(("setting", "named"), [({"lr": 1e30}, "site"), ({"initial_log_variance": 200.0}, "hidden_1")])
def test_numbers_that_are_none_stop_the_task_with_the_sites_name(setting, named):
    learner = small("vcl", settings=setting, epochs=5)
    with pytest.raises(Diverged, match=named) as error:
        learner.learn((X, Y), name="birds")
    assert "is kept" in str(error.value) and "'birds'" in str(error.value) and learner.tasks == {}
    learner.settings = METHODS["vcl"].settings()
    learner.learn((X, Y), name="birds")
    assert list(learner.tasks) == ["birds"]


def test_a_damaged_save_is_told_and_the_one_before_is_loaded(tmp_path):
    learner = small(epochs=1)
    learner.learn((X, Y), name="birds")
    learner.save(tmp_path)
    learner.learn(blob([1, 5]), name="fish")
    learner.save(tmp_path)
    (tmp_path / "state-2.safetensors").write_bytes(b"")
    with pytest.warns(UserWarning, match=r"state-2\.json cannot be used: its tensors are damaged"):
        assert list(Learner.load(tmp_path).tasks) == ["birds"]
    (tmp_path / "state-1.json").write_text("{}")
    with pytest.raises(InputError, match=r"state-2\.json cannot be used"):
        Learner.load(tmp_path)
    with pytest.raises(InputError, match="no saved learner"):
        Learner.load(tmp_path / "nowhere")


def test_a_learner_that_has_learned_nothing_can_be_saved(tmp_path):
    small(epochs=3).save(tmp_path)
    assert Learner.load(tmp_path).options["epochs"] == 3
