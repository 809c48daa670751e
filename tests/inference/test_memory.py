import subprocess
import sys

import pytest

from pyroclaw.inference import memory

# 200 MB in pieces small enough for the heap; one in eight is kept, so that the heap cannot shrink from its end
SCRIPT = """
from pathlib import Path
from pyroclaw.inference.memory import EVERY, release_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

pieces = [bytes(100_000) for _ in range(2000)]
kept = pieces[::8]
del pieces
before = resident()
release_memory(EVERY + 1)
print(before - resident())
release_memory(EVERY)
print(before - resident())
"""


KEEP = """
from pathlib import Path
from pyroclaw.inference.memory import keep_freed_memory

def faults():
    return int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[7])

def cost():
    before = faults()
    for _ in range(10):
        bytearray(50_000_000)
    return faults() - before

print(cost())
keep_freed_memory()
cost()
print(cost())
"""


@pytest.mark.skipif(memory._glibc() is None, reason="not glibc")
def test_free_pages_are_returned_every_so_many_steps():
    shown = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True).stdout
    not_yet, freed = map(float, shown.split())
    assert not_yet < 5 and freed > 50


@pytest.mark.skipif(memory._glibc() is None, reason="not glibc")
def test_large_blocks_are_had_once_and_kept():
    shown = subprocess.run([sys.executable, "-c", KEEP], check=True, capture_output=True, text=True).stdout
    fresh, kept = map(int, shown.split())
    assert kept < fresh / 10
