"""A study: the trials made so far, kept in a journal, and the setting to try next.

The journal is optuna's: a file of JSON lines, one for each trial once it is finished, in one write. So a search that is
killed has lost the trial it was at and nothing else.

What comes next is a function of the seed and the finished trials: for each trial a sampler is made anew, with a seed of
its own, and told of the trials before it. So a search that was stopped and goes on makes the very trials that it would
have made without a stop, with the same version of optuna.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyroclaw.errors import InputError
from pyroclaw.experiments.spaces import Space, contains, everything, rounded

REDRAWS = 10  # of a setting that was tried before


def _optuna() -> Any:
    """The library, which only a search needs."""
    try:
        import optuna
    except ImportError as error:
        raise InputError("the search needs optuna: install it by pip install 'pyroclaw[search]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


class Study:
    """Trials in a space, by number; number 0 is the setting that the others must beat."""

    def __init__(self, folder: Path, space: Space, seed: int) -> None:
        self.optuna, self.space, self.seed = _optuna(), space, seed
        made = self.optuna.distributions
        self.distributions = {
            name: made.CategoricalDistribution(**each) if "choices" in each else made.FloatDistribution(**each)
            for name, each in space.items()
        }
        journal = folder / "journal.jsonl"
        _cut_half_line(journal)
        storages = self.optuna.storages
        try:
            storage = storages.JournalStorage(storages.journal.JournalFileBackend(str(journal)))
            self.study = self.optuna.create_study(
                storage=storage, study_name=folder.name, direction="maximize", load_if_exists=True
            )
        except (ValueError, KeyError) as error:
            raise InputError(
                f"the journal {journal} cannot be read ({error}): delete it; records of trials are used again"
            ) from error

    @property
    def trials(self) -> list[Any]:
        return self.study.get_trials(deepcopy=False)

    def add(self, values: Mapping[str, Any], accuracy: float, **facts: Any) -> None:
        """Keep a finished trial. Values outside the space are not told to the sampler."""
        inside = contains(self.space, values)
        trial = self.optuna.trial.create_trial(
            value=accuracy,
            params=dict(values) if inside else {},
            distributions=self.distributions if inside else {},
            user_attrs=facts,
        )
        self.study.add_trial(trial)

    def propose(self) -> dict[str, Any] | None:
        """The next values of what is searched; None if all there are were tried."""
        known = [trial for trial in self.trials if trial.params]
        tried = [trial.params for trial in known]
        all_there_are = everything(self.space)
        untried = [values for values in all_there_are or [] if values not in tried]
        if all_there_are is not None and not untried:
            return None
        values: dict[str, Any] = {}
        for attempt in range(REDRAWS):
            seed = hashlib.sha256(f"{self.seed} {len(self.trials)} {attempt}".encode()).digest()[:4]
            sampler = self.optuna.samplers.TPESampler(seed=int.from_bytes(seed))
            so_far = self.optuna.create_study(direction="maximize", sampler=sampler)
            so_far.add_trials(known)
            values = rounded(so_far.ask(self.distributions).params, self.space)
            if values not in tried:
                return values
        return untried[0] if untried else values


def _cut_half_line(journal: Path) -> None:
    """A kill in the middle of a write leaves half a line, to which the next would be joined."""
    if journal.exists():
        content = journal.read_bytes()
        if not content.endswith(b"\n"):
            with journal.open("r+b") as file:
                file.truncate(content.rfind(b"\n") + 1)
