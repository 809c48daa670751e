from io import StringIO

from rich.console import Console

from pyroclaw.experiments.console import REFRESH, View


class Elbo:
    """Counts how often it is read."""

    reads = 0

    def item(self):
        Elbo.reads += 1
        return -1.0


def test_the_elbo_is_read_now_and_then_and_only_where_it_is_shown(monkeypatch):
    for terminal, quiet, reads in ((True, False, 3), (True, True, 0), (False, False, 0)):
        monkeypatch.setattr(Elbo, "reads", 0)
        with View(Console(force_terminal=terminal, file=StringIO()), quiet) as view:
            view.begin(3 * REFRESH)
            for step in range(3 * REFRESH):
                view.step(["a"], 0, step, Elbo())
        assert Elbo.reads == reads
