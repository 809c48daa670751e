"""The runs of a sweep as tasks of Ray, on this machine or on a cluster.

Ray starts a run where the CPUs and GPUs that it declares are free, and starts it again, up to `RETRIES` times, if its
worker or its machine is lost; it then goes on from its checkpoints. Nothing needs to be on the other machines but
pyroclaw: data go to them through Ray's object store, records come back as the result of the task. If the folder of runs
is one that all machines share, a run can also go on on another machine than the one that was lost; else it begins anew
there, and ends with the same records.

Runs tell a `Board`, an actor beside the driver, how they get on, and are told in answer when they are to stop.
"""

import os
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyroclaw.data.benchmark import Benchmark
from pyroclaw.errors import InputError
from pyroclaw.experiments.sweep_run import Outcome, Run, learn
from pyroclaw.experiments.sweep_view import News, Reporter, SweepView

RETRIES = 10  # of a run whose worker is lost
POLL, ANSWER = 0.2, 5.0  # seconds: between two looks at the runs, and within which an address must answer


def _ray() -> Any:
    """The library, which only this engine needs; nothing is reported to its makers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what will be Ray's default; else it warns
    try:
        import ray
    except ImportError as error:
        raise InputError('--engine ray needs Ray: install it by pip install "pyroclaw[cluster]"') from error
    return ray


def check(address: str | None) -> None:
    """What can be wrong, before anything is done. Ray itself would try an address that does not answer for minutes."""
    _ray()
    if address is None or address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise InputError(f"--address {address} is not of the form HOST:PORT, as in 10.0.0.1:6379; or use auto")
    try:
        socket.create_connection((host, int(port)), ANSWER).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--address {address} does not answer ({error}): start a cluster there by ray start --head, or leave it out"
        ) from error


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster or started here; one that this process is connected to already is used and left."""
    ray = _ray()
    if ray.is_initialized():
        yield ray
        return
    here = {}
    if address is None:
        here["include_dashboard"] = False
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # else Ray makes one and keeps it in the home
    try:
        ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **here)
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        raise InputError(
            f"--address {address or 'local'}: Ray cannot connect ({_first_line(error)}); have the same version of it, "
            "RAY_AUTH_MODE and RAY_AUTH_TOKEN here as there"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _board() -> type:
    """The board's class: made here, it is sent by value, and its process need not import pyroclaw and torch."""

    class Board:
        def __init__(self) -> None:
            self.news: list[tuple] = []
            self.stopped = False

        def report(self, news: tuple) -> bool:
            """Whether the run is to stop."""
            self.news.append(news)
            return self.stopped

        def read(self) -> list[tuple]:
            news, self.news = self.news, []
            return news

        def stop(self) -> None:
            self.stopped = True

    return Board


def learn_there(number: int, run: Run, bench: Benchmark, board: Any) -> Outcome:
    """In a worker: the same as in one's own process, watched by the board."""
    ray = _ray()
    answers = [board.report.remote(tuple(News(number)))]
    stopped = ray.get(answers.pop())

    def send(news: News) -> None:
        answers.append(board.report.remote(tuple(news)))

    def stop() -> bool:
        nonlocal stopped
        ready, answers[:] = ray.wait(answers, num_returns=len(answers), timeout=0) if answers else ([], [])
        stopped = stopped or any(ray.get(ready))
        return stopped

    return learn(run, bench, Reporter(number, send), stop)


def outcomes(
    runs: Sequence[Run],
    benches: Mapping[str, Benchmark],
    options: Any,
    view: SweepView,
    stop: Callable[[], bool],
) -> Iterator[tuple[int, Outcome]]:
    """How each run ended, by number, in the order in which they do.

    :param options: the sweep's: the address, and CPUs and GPUs of a run.
    """
    with connected(options.address) as ray:
        _check_room(ray, options.cpus_per_run, options.gpus_per_run)
        beside = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        board = ray.remote(num_cpus=0, scheduling_strategy=beside)(_board()).remote()
        data = {name: ray.put(benches[name]) for name in {run.common.bench for run in runs}}
        task = ray.remote(num_cpus=options.cpus_per_run, num_gpus=options.gpus_per_run, max_retries=RETRIES)(
            learn_there
        )
        tasks = {task.remote(n, run, data[run.common.bench], board): n for n, run in enumerate(runs)}
        begun: set[int] = set()
        stopped = False
        while tasks:
            ready, _ = ray.wait(list(tasks), timeout=POLL)
            for news in map(News._make, ray.get(board.read.remote())):
                begun.add(news.run)
                if news.run in tasks.values():
                    view.show(news)
            for one in ready:
                yield tasks.pop(one), _outcome(ray, one)
            if stop() and not stopped:
                stopped = True
                ray.get(board.stop.remote())
                for one, number in tasks.items():
                    if number not in begun:
                        ray.cancel(one)


def _outcome(ray: Any, task: Any) -> Outcome:
    try:
        return ray.get(task)
    except ray.exceptions.TaskCancelledError:
        return Outcome([], interrupted=True)
    except ray.exceptions.RayError as error:
        return Outcome([], failure=f"Ray gave it up ({type(error).__name__}: {_first_line(error)})")


def _check_room(ray: Any, cpus: float, gpus: float) -> None:
    """Ray would wait for ever for a machine that is large enough."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(each.get("CPU", 0) >= cpus and each.get("GPU", 0) >= gpus for each in machines):
        largest = ", ".join(sorted({f"{each.get('CPU', 0):g} and {each.get('GPU', 0):g}" for each in machines}))
        raise InputError(
            f"no machine of the cluster has --cpus-per-run {cpus} and --gpus-per-run {gpus:g} (there are machines "
            f"with {largest}): ask for less"
        )


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
