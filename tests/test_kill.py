"""An engine killed at any moment leaves every finished pass readable."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from layerdiff.cli import main
from layerdiff.format.reader import Dump
from layerdiff.vocabulary import Moment, TensorKind

KILLS = 20
ENGINE = """
import json, os, random, signal, sys, time
import torch
from layerdiff.digest import row_digests
from layerdiff_hooks import record
from layerdiff_samples.arms import forward
from tests.families import VOCABULARY, build

torch.set_num_threads(1)
model = build("qwen3_next", dtype=torch.float32)
tokens = torch.randint(3, VOCABULARY, (1, 64), generator=torch.Generator().manual_seed(0))
moments = random.Random(0)

def serve(path, pipe):
    with torch.no_grad(), record(model, path, arm="run") as recorder:
        while True:
            with recorder.request(f"r{recorder.passes}", tokens):
                cache = None
                for start, stop in [(0, 9), *((i, i + 1) for i in range(9, 40))]:
                    heads = []
                    handle = model.lm_head.register_forward_hook(
                        lambda m, a, out: heads.append(out[0].clone())
                    )
                    number = recorder.passes
                    cache = forward(model, tokens[:, start:stop], cache)
                    handle.remove()
                    rows = heads[0].numpy()
                    found = row_digests(rows.view("u1"), "float32", (VOCABULARY,)).tolist()
                    pipe.write(json.dumps([number, found]) + "\\n")
                    pipe.flush()

for kill in range(int(sys.argv[2])):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        try:
            serve(f"{sys.argv[1]}/{kill}.h5", os.fdopen(writer, "w"))
        finally:
            os._exit(1)
    os.close(writer)
    time.sleep(0.05 + 0.5 * moments.random())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reader) as lines:
        print(json.dumps([kill, [json.loads(line) for line in lines if line.endswith("\\n")]]))
"""


def test_every_reported_pass_is_read_after_kill_9(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the engine had finished, with the digests that it computed itself."""
    done = subprocess.run(
        [sys.executable, "-c", ENGINE, str(tmp_path), str(KILLS)],
        capture_output=True,
        text=True,
        check=True,
    )
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(reports) == KILLS
    assert sum(len(passes) for _, passes in reports) > KILLS
    for kill, passes in reports:
        path = tmp_path / f"{kill}.h5"
        if not passes:
            continue
        with Dump.open(path) as dump:
            assert not dump.closed
            heads = dump.observations[dump.observations["kind"] == TensorKind.LOGITS]
            by_pass = {int(row["pass_index"]): row for row in heads}
            for number, digests in passes:
                row = by_pass[number]
                assert row["moment"] == Moment.COMPUTED
                found = dump.digests(int(row["first_digest"]), int(row["rows"]))
                assert np.array_equal(found, np.array(digests, np.uint64))
        assert main(["show", str(path)]) == 0
        assert main(["diff", str(path), str(path)]) in (0, 3)
        assert "Traceback" not in capsys.readouterr().err
