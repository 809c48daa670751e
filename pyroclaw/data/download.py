"""Fetching a public file: quick to notice that there is no network, patient with a server that fails now and then.

A file is fetched into `<file>.part`; a broken connection is resumed there by an HTTP Range request, in the same run or
in a later one. pooch compares the checksum and moves the whole file into place, so a half file never has its name.
"""

import http.client
import os
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

import pooch
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

TRIES = 5
PAUSE = 1.0  # seconds before the second try, doubled before each further one
PROBE = 4.0  # seconds a server has to answer at all before it counts as out of reach
PATIENCE = 30.0  # seconds without a byte before a connection counts as broken
CHUNK = 2**16

_answers: dict[str, bool] = {}  # server -> did it answer; asked once a process


class DownloadError(Exception):
    """The file could not be had; the message ends a sentence."""


def reachable(addresses: Iterable[str]) -> list[str]:
    """Those addresses whose server answers anything at all; all servers are asked at once, each once a process.

    The question runs in threads that are abandoned after `PROBE` seconds: where there is no network, the look-up of a
    name alone can hang for longer, and no timeout of a socket applies to it.
    """
    addresses = list(addresses)
    unknown = {_server(address) for address in addresses} - set(_answers)
    threads = [threading.Thread(target=_ask, args=(server,), daemon=True) for server in unknown]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + PROBE
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [address for address in addresses if _answers.setdefault(_server(address), False)]


def _server(address: str) -> str:
    parts = urllib.parse.urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}/"


def _ask(server: str) -> None:
    try:
        urllib.request.urlopen(urllib.request.Request(server, method="HEAD"), timeout=PROBE).close()
        answered = True
    except urllib.error.HTTPError as error:  # an error page is an answer
        error.close()
        answered = True
    except (OSError, http.client.HTTPException, ValueError):
        answered = False
    _answers.setdefault(server, answered)


def fetch(addresses: list[str], path: Path, md5: str, log: Callable[[str], None]) -> None:
    """Fetch one file from the first of its addresses that delivers it with the right checksum."""
    pooch.get_logger().setLevel("WARNING")  # the log line below is enough
    wanted, problem = list(addresses), "no address"
    for attempt in range(TRIES):
        if not wanted:
            break
        address = wanted[attempt % len(wanted)]
        try:
            pooch.retrieve(address, f"md5:{md5}", path.name, path.parent, downloader=_Resuming(path))
            return
        except urllib.error.HTTPError as error:
            error.close()
            problem = f"{address} answered {error.code} {error.reason}"
            if 400 <= error.code < 500:  # such a refusal does not pass by waiting
                wanted.remove(address)
                continue
        except (OSError, http.client.HTTPException) as error:
            problem = f"{address} broke off ({error})"
        except ValueError:
            problem = f"{address} delivered a file with the wrong checksum"
        if attempt < TRIES - 1:
            log(f"{problem}; trying again")
            time.sleep(PAUSE * 2**attempt)
    raise DownloadError(problem)


class _Resuming:
    """A downloader as pooch calls it: fills `output_file` by way of a part file that outlives a broken connection."""

    def __init__(self, path: Path) -> None:
        self.part = path.with_name(f"{path.name}.part")

    def __call__(self, address: str, output_file: str, _: object) -> None:
        have = self.part.stat().st_size if self.part.exists() else 0
        request = urllib.request.Request(address, headers={"Range": f"bytes={have}-"} if have else {})
        try:
            response = urllib.request.urlopen(request, timeout=PATIENCE)
        except urllib.error.HTTPError as error:
            if error.code != 416:
                raise
            error.close()
            self._restart("the part that is here is longer than the file")
        with response:
            resumed = response.status == 206
            if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                self._restart("the answer is not the range asked for")
            have = have if resumed else 0
            length = response.headers.get("Content-Length")
            total = have + int(length) if length else None
            self._receive(response, have, total)
        if total is not None and self.part.stat().st_size != total:
            raise ConnectionError(f"{self.part.stat().st_size} of {total} bytes")
        os.replace(self.part, output_file)

    def _restart(self, why: str) -> NoReturn:
        self.part.unlink()
        raise ConnectionError(why)

    def _receive(self, response: http.client.HTTPResponse, have: int, total: int | None) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with (
            Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
            self.part.open("ab" if have else "wb") as stream,
        ):
            task = progress.add_task(self.part.stem, total=total, completed=have)
            while chunk := response.read(CHUNK):
                stream.write(chunk)
                progress.advance(task, len(chunk))
