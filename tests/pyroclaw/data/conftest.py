"""Small files in the true raw formats, and an HTTP server that misbehaves on demand."""

import gzip
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pyroclaw.data import download, local, sources


class Writer:
    """Writes raw files under `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def idx(self, place: str, train: int = 30, test: int = 10, suffix: str = ".gz"):
        folder = self.folder / place
        folder.mkdir(parents=True)
        images = np.random.randint(0, 256, (train + test, 28, 28), np.uint8)
        labels = (np.arange(train + test) % 10).astype(np.uint8)
        for stem, part in (("train", slice(0, train)), ("t10k", slice(train, None))):
            for kind, array in (("images-idx3", images[part]), ("labels-idx1", labels[part])):
                content = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()
                path = folder / f"{stem}-{kind}-ubyte{suffix}"
                path.write_bytes(gzip.compress(content) if suffix else content)
        return images, labels

    def cifar_binary(self, train: int = 200, test: int = 100):
        folder = self.folder / "cifar-100-binary"
        folder.mkdir()
        images = np.random.randint(0, 256, (train + test, 32, 32, 3), np.uint8)
        labels = (np.arange(train + test) % 100).astype(np.uint8)
        planes = images.transpose(0, 3, 1, 2).reshape(train + test, -1)
        records = np.concatenate([(labels // 5)[:, None], labels[:, None], planes], axis=1)
        (folder / "train.bin").write_bytes(records[:train].tobytes())
        (folder / "test.bin").write_bytes(records[train:].tobytes())
        (folder / "fine_label_names.txt").write_text("".join(f"class{i}\n" for i in range(100)) + "\n")
        return images, labels

    def omniglot(self, archive: bool = True) -> None:
        """Two alphabets in the first part, one in the second; each picture has its own block of ink."""
        folder = self.folder / "omniglot-py"
        folder.mkdir()
        for part, alphabets in {"images_background": {"Zeta": 3, "Eta": 2}, "images_evaluation": {"Alpha": 2}}.items():
            with zipfile.ZipFile(folder / f"{part}.zip", "w") as zipped:
                for alphabet, character, drawer in (
                    (a, c, d) for a, characters in alphabets.items() for c in range(characters) for d in range(2)
                ):
                    paper = np.ones((105, 105), bool)
                    row, column = 15 * character, 15 * (2 * ["Zeta", "Eta", "Alpha"].index(alphabet) + drawer)
                    paper[row : row + 15, column : column + 15] = False
                    name = f"{part}/{alphabet}/character{character + 1:02}/0{character}_{drawer + 1:02}.png"
                    zipped.writestr(name, png(Image.fromarray(paper)))
            if not archive:
                with zipfile.ZipFile(folder / f"{part}.zip") as zipped:
                    zipped.extractall(folder)
                (folder / f"{part}.zip").unlink()

    def notmnist(self, name: str = "notMNIST_small.tar.gz", fonts: int = 3) -> Path:
        """Ten letters of each font, one empty and one broken PNG, and a file that tries to leave its folder."""
        path = self.folder / name
        with tarfile.open(path, "w:gz" if name.endswith("gz") else "w") as archive:
            for letter in "JIHGFEDCBA":
                for font in range(fonts):
                    pixels = np.full((28, 28), 20 * font + ord(letter), np.uint8)
                    add(archive, f"notMNIST_small/{letter}/font{font}.png", png(Image.fromarray(pixels)))
            add(archive, "notMNIST_small/A/RGVtb.png", b"")
            add(archive, "notMNIST_small/B/Q3Jvc.png", png(Image.fromarray(pixels))[:40])
            add(archive, "../../escaped/A/evil.png", png(Image.new("L", (28, 28), 255)))
        return path


def png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


class Server:
    """Serves `files`; the next request takes the next entry of `faults`: a status code, "cut" or "no range"."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.faults: list[int | str] = []
        self.ranges: list[str | None] = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.send_response(200)
                self.end_headers()

            def do_GET(self):
                server.answer(self)

        self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.httpd.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def address(self, name: str = "") -> str:
        return f"http://127.0.0.1:{self.httpd.server_port}/{name}"

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        content, fault = self.files.get(request.path[1:]), self.faults.pop(0) if self.faults else None
        wanted = request.headers.get("Range")
        self.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and fault != "no range" else 0
        if content is None or isinstance(fault, int) or start > len(content):
            request.send_error(fault if isinstance(fault, int) else 404 if content is None else 416)
            return
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        request.send_header("Content-Length", str(len(content) - start))
        request.end_headers()
        request.wfile.write(content[start : start + (len(content) - start) // 2] if fault == "cut" else content[start:])

    def close(self) -> None:
        self.httpd.shutdown()
        self.httpd.server_close()
        self.thread.join()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture
def write(tmp_path):
    return Writer(tmp_path)


@pytest.fixture
def isolated(monkeypatch, tmp_path):
    """No data of this machine, no server but the test's own, no waiting between tries."""
    monkeypatch.delenv("PYROCLAW_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(local, "DEBIAN_FASHION", tmp_path / "debian")
    monkeypatch.setattr(sources, "DEBIAN_FASHION", tmp_path / "debian")
    monkeypatch.setattr(download, "PAUSE", 0.001)
    monkeypatch.setattr(download, "_answers", {})
    ask = download._ask
    monkeypatch.setattr(download, "_ask", lambda server: ask(server) if server.startswith("http://127.") else None)


@pytest.fixture
def md5():
    return lambda content: hashlib.md5(content, usedforsecurity=False).hexdigest()
