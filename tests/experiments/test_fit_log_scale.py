import pytest

from pyroclaw.distributions import SIGMOID_FIT
from pyroclaw.errors import InputError
from pyroclaw.experiments.fit_log_scale import Options, fit, main


@pytest.fixture(scope="module")
def result():
    return fit(Options(points=101))


def test_gives_the_constants_of_the_package(result):
    assert result.constants == pytest.approx(SIGMOID_FIT, abs=1e-3)


def test_errors(result):
    exact, refitted, published, cubic = result.errors.values()
    assert exact < 1e-11
    assert 1e-4 < refitted < published < cubic
    assert published == pytest.approx(0.0094, abs=2e-4)
    assert cubic == pytest.approx(0.0205, abs=1e-3)


def test_command_line(capsys):
    assert main(["--points", "41"]) == 0
    printed = capsys.readouterr().out
    assert "k1, k2, k3 = 0.63" in printed
    assert "sigmoid, refitted" in printed and "Molchanov" in printed and "Kingma" in printed


def test_help(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["--help"])
    assert exit_.value.code == 0
    assert "--low" in capsys.readouterr().out


def test_bad_range(capsys):
    with pytest.raises(InputError, match="--low"):
        fit(Options(low=2.0))
    assert main(["--low", "2"]) == 2
    assert "--low" in capsys.readouterr().err
