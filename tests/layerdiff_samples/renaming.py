"""Copies of dumps in which every site, kernel, source and request has another name."""

import random
import shutil
import string
from pathlib import Path

import h5py
import numpy as np

NAMED = {"requests": ("name",), "sites": ("name",), "kernels": ("name", "source")}
"""Columns of text ids, by table."""


class Renaming:
    """New names of the same length, the same for the same old name in every dump."""

    def __init__(self) -> None:
        self._random = random.Random(0)
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def __call__(self, old: str) -> str:
        """The new name; no two old ones share one."""
        while old not in self._names:
            new = "".join(self._random.choices(string.ascii_letters, k=len(old.encode())))
            if new not in self._taken:
                self._taken.add(new)
                self._names[old] = new
        return self._names[old]

    def copy(self, dump: Path, target: Path) -> Path:
        """A copy of a dump under the new names."""
        shutil.copyfile(dump, target)
        with h5py.File(target, "r+") as file:
            heap, ends = _table(file, "text_bytes"), _table(file, "text_ends")
            numbers = [_table(file, name)[column] for name, c in NAMED.items() for column in c]
            for number in np.unique(np.concatenate(numbers)).tolist():
                if number < len(ends):
                    text = slice(int(ends[number - 1]), int(ends[number]))
                    old = heap[text].tobytes().decode()
                    heap[text] = np.frombuffer(self(old).encode(), np.uint8)
            stored = file["text_bytes"]
            assert isinstance(stored, h5py.Dataset)
            stored[:] = heap
        return target


def _table(file: h5py.File, name: str) -> np.ndarray:
    """All of one table."""
    found = file[name]
    assert isinstance(found, h5py.Dataset)
    content: np.ndarray = found[:]
    return content
