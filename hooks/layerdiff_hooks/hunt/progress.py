"""What a hunt says while it runs: one line an arm."""

import time
from typing import TextIO


class Progress:
    """Lines on a stream, or nowhere."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._start = self._begun = time.perf_counter()
        self._done = 0
        self.total = 0
        """How many runs are planned so far."""

    def begin(self, name: str) -> None:
        """A run begins; the line is left open until `finish`."""
        self._done += 1
        self.total = max(self.total, self._done)
        self._begun = time.perf_counter()
        self._write(f"running {name} ({self._done} of {self.total}) ... ")

    def finish(self, words: str = "") -> None:
        """It ended: in *words*, or after how many seconds."""
        self._write((words or f"{time.perf_counter() - self._begun:.1f} s") + "\n")

    def line(self, words: str) -> None:
        """Something else worth a line."""
        self._write(words + "\n")

    def total_time(self, words: str = "") -> None:
        """The hunt ended."""
        runs = "1 run" if self._done == 1 else f"{self._done} runs"
        seconds = time.perf_counter() - self._start
        self.line(f"{runs}, {seconds:.1f} s in all" + (f"; {words}" if words else ""))

    def _write(self, words: str) -> None:
        if self._stream is not None:
            self._stream.write(words)
            self._stream.flush()
