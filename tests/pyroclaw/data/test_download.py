"""Downloads from a server on this machine that fails, truncates and recovers."""

import time

import numpy as np
import pytest

from pyroclaw.data import download
from pyroclaw.data.download import DownloadError, fetch, reachable

pytestmark = pytest.mark.usefixtures("isolated")
CONTENT = np.random.default_rng(0).bytes(300_000)


@pytest.fixture
def get(server, tmp_path, md5):
    """Fetch the server's file; the lines of the log come back."""
    server.files["file"] = CONTENT

    def run(addresses=None, checksum=None):
        lines = []
        fetch(addresses or [server.address("file")], tmp_path / "file", checksum or md5(CONTENT), lines.append)
        return lines

    return run


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_good_server_is_asked_once(get, server, tmp_path):
    assert get() == []
    assert (tmp_path / "file").read_bytes() == CONTENT and names(tmp_path) == ["file"]
    assert server.ranges == [None]
    get()
    assert len(server.ranges) == 1  # the file is here and has its checksum


def test_a_server_that_fails_and_truncates_is_resumed(get, server, tmp_path):
    server.faults = [500, "cut", 503, "cut"]
    lines = get()
    assert (tmp_path / "file").read_bytes() == CONTENT and names(tmp_path) == ["file"]
    assert server.ranges == [None, None, "bytes=150000-", "bytes=150000-", "bytes=225000-"]
    assert len(lines) == 4 and "answered 500" in lines[0] and "150000 of 300000 bytes" in lines[1]


def test_a_part_of_an_earlier_run_is_resumed(get, server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    get()
    assert server.ranges == ["bytes=1000-"] and (tmp_path / "file").read_bytes() == CONTENT


def test_a_server_that_ignores_ranges_sends_all_again(get, server, tmp_path):
    server.faults = ["cut", "no range"]
    get()
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("part", [b"x" * 1000, CONTENT + b"too long"])
def test_a_wrong_part_is_thrown_away(get, tmp_path, part):
    (tmp_path / "file.part").write_bytes(part)
    assert len(get()) == 1
    assert (tmp_path / "file").read_bytes() == CONTENT and names(tmp_path) == ["file"]


def test_a_wrong_checksum_never_becomes_a_file(get, server, tmp_path):
    with pytest.raises(DownloadError, match="wrong checksum"):
        get(checksum="0" * 32)
    assert names(tmp_path) == [] and len(server.ranges) == download.TRIES


def test_a_server_that_never_recovers_is_given_up_but_its_part_is_kept(get, server, tmp_path):
    server.faults = ["cut"] + [500] * 10
    with pytest.raises(DownloadError, match="answered 500"):
        get()
    assert names(tmp_path) == ["file.part"] and len(server.ranges) == download.TRIES


def test_a_refusal_is_not_repeated(get, server):
    with pytest.raises(DownloadError, match="answered 404"):
        get([server.address("nowhere")])
    assert len(server.ranges) == 1


def test_the_second_address_serves_where_the_first_refuses(get, server, tmp_path):
    get([server.address("nowhere"), server.address("file")])
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_only_servers_that_answer_are_reachable(server):
    assert reachable([server.address("a"), "http://127.0.0.1:9/b"]) == [server.address("a")]


def test_a_network_that_swallows_everything_is_noticed_quickly_and_once(monkeypatch):
    asked = []
    monkeypatch.setattr(download, "PROBE", 0.2)
    monkeypatch.setattr(download, "_ask", lambda server: asked.append(server) or time.sleep(2))
    start = time.monotonic()
    assert reachable([f"https://host{i}.invalid/file" for i in range(5)]) == []
    assert reachable([f"https://host{i}.invalid/other" for i in range(5)]) == []
    assert time.monotonic() - start < 1 and len(asked) == 5
