"""Exit status and report of ``layerdiff diff``, in the precedence that scripts rely on."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layerdiff.cli import main
from layerdiff.format.reader import Dump
from layerdiff.format.writer import DumpWriter
from layerdiff.testing import DumpBuilder, Plant, ToyRequest, toy_dump
from layerdiff.vocabulary import EventKind

TOKENS = tuple(np.random.default_rng(1).integers(0, 32, 16).tolist())
OTHER = tuple((token + 1) % 32 for token in TOKENS)
FILL, REST = ToyRequest("fill", TOKENS[:6]), ToyRequest("r1", TOKENS, takes="fill")


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    """The prompt in one pass."""
    return toy_dump(tmp_path / "cold.h5", [ToyRequest("r1", TOKENS)])


@pytest.fixture
def warm(tmp_path: Path) -> Path:
    """The prompt on a cache that another request filled."""
    return toy_dump(tmp_path / "warm.h5", [FILL, REST], arm="warm")


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, dict[str, Any]]:
    """Exit status and JSON report of a diff."""
    status = main(["diff", *map(str, words), "--format", "json"])
    return status, json.loads(capsys.readouterr().out)


def test_equal_runs_are_identical(
    cold: Path, warm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every cell compared or accounted for, and a hit served: 0."""
    status, report = run(capsys, cold, warm)
    assert (status, report["verdict"]) == (0, "identical")
    assert report["coverage"]["hit_tokens"] == {"fill": 0, "r1": 6}
    assert report["coverage"]["compared"] > 0


def test_a_difference_is_diverged(cold: Path, tmp_path: Path, capsys: Any) -> None:
    """An origin was observed: 1."""
    plant = Plant("model.layers.1:out", 9)
    faulty = toy_dump(tmp_path / "faulty.h5", [FILL, REST], arm="warm", plants=[plant])
    status, report = run(capsys, cold, faulty)
    assert (status, report["verdict"]) == (1, "diverged")
    assert report["origins"][0]["site"] == plant.site


def test_a_warm_arm_without_a_hit_is_inconclusive(cold: Path, tmp_path: Path, capsys: Any) -> None:
    """Nothing was reused, so nothing was tested: 3, no-reuse."""
    never = toy_dump(tmp_path / "never.h5", [ToyRequest("r1", TOKENS)], arm="warm")
    status, report = run(capsys, cold, never)
    assert (status, report["verdict"]) == (3, "inconclusive")
    assert [cause["cause"] for cause in report["arm_causes"]] == ["no-reuse"]


def test_a_cold_arm_with_a_hit_is_inconclusive(warm: Path, tmp_path: Path, capsys: Any) -> None:
    """A cold run that took rows from a cache was not cold: 3, cold-not-cold."""
    not_cold = toy_dump(tmp_path / "cold.h5", [FILL, REST], arm="cold")
    status, report = run(capsys, not_cold, warm)
    assert (status, report["verdict"]) == (3, "inconclusive")
    assert [cause["cause"] for cause in report["arm_causes"]] == ["cold-not-cold"]


def test_odd_arms_do_not_hide_a_difference(cold: Path, tmp_path: Path, capsys: Any) -> None:
    """An observed difference is always 1; that no hit was served is said beside it."""
    plants = [Plant("model.layers.0:out", 3)]
    never = toy_dump(tmp_path / "w.h5", [ToyRequest("r1", TOKENS)], arm="warm", plants=plants)
    status, report = run(capsys, cold, never)
    assert status == 1
    assert [cause["cause"] for cause in report["arm_causes"]] == ["no-reuse"]


def test_other_prompts_do_not_pair(cold: Path, tmp_path: Path, capsys: Any) -> None:
    """No common request: 2, with the reason in the JSON and one line on stderr."""
    other = toy_dump(tmp_path / "other.h5", [ToyRequest("x", OTHER)])
    status = main(["diff", str(cold), str(other), "--format", "json"])
    captured = capsys.readouterr()
    assert status == 2
    assert "no common request" in json.loads(captured.out)["error"]
    assert captured.err.startswith("layerdiff: ")
    assert captured.err.count("\n") == 1


def test_a_forced_pair_of_other_prompts_is_a_mismatch(
    cold: Path, tmp_path: Path, capsys: Any
) -> None:
    """Asked for by name, requests with other tokens are compared and named request-mismatch: 1."""
    tokens = (*TOKENS[:10], *OTHER[10:])
    other = toy_dump(tmp_path / "other.h5", [ToyRequest("x", tokens)])
    status, report = run(capsys, cold, other, "--pair", "r1=x")
    assert status == 1
    assert report["origins"][0]["cause"] == "request-mismatch"
    assert report["origins"][0]["position"] == 10


def test_a_forced_pair_of_equal_prompts_is_no_mismatch(
    cold: Path, warm: Path, capsys: Any
) -> None:
    """The look-alike: forcing what would have been paired anyway changes nothing."""
    status, report = run(capsys, cold, warm, "--pair", "r1=r1")
    assert (status, report["origins"]) == (0, [])


def test_requests_of_one_dump_can_be_compared(tmp_path: Path, capsys: Any) -> None:
    """``DUMP::REQUEST`` names one request of a dump."""
    both = toy_dump(
        tmp_path / "both.h5", [ToyRequest("a", TOKENS), ToyRequest("b", TOKENS)], arm="run"
    )
    status, report = run(capsys, f"{both}::a", f"{both}::b")
    assert status == 0
    assert report["candidate"]["requests"] == ["b"]


def with_model(path: Path, **model: str) -> Path:
    """A dump with one row and what its header says of the model."""
    with DumpBuilder(path, arm="run", header={"model": model}) as builder:
        request = builder.request("r1", TOKENS[:2])
        builder.site("model.layers.0:out", layer_index=0)
        builder.observe("model.layers.0:out", np.ones((2, 4), np.float32), [(request, 0, 2)])
        builder.commit([(request, 0, 2)])
    return path


def test_other_weights_are_a_mismatch(tmp_path: Path, capsys: Any) -> None:
    """The same architecture with other weights: 1, weights-mismatch, even where rows agree."""
    a = with_model(tmp_path / "a.h5", **{"class": "M", "weights": "1"})
    b = with_model(tmp_path / "b.h5", **{"class": "M", "weights": "2"})
    status, report = run(capsys, a, b)
    assert (status, report["origins"][0]["cause"]) == (1, "weights-mismatch")
    status, report = run(capsys, a, a)
    assert (status, report["origins"]) == (0, [])


def test_another_architecture_cannot_be_compared(tmp_path: Path, capsys: Any) -> None:
    """2, before anything else is looked at."""
    a = with_model(tmp_path / "a.h5", **{"class": "M"})
    b = with_model(tmp_path / "b.h5", **{"class": "N"})
    status, report = run(capsys, a, b)
    assert status == 2
    assert "another architecture" in report["error"]


def test_an_empty_dump_cannot_be_compared(cold: Path, tmp_path: Path, capsys: Any) -> None:
    """No finished pass: 2."""
    DumpWriter(tmp_path / "empty.h5", {"arm": "warm"}).close()
    status, report = run(capsys, cold, tmp_path / "empty.h5")
    assert status == 2
    assert "no finished pass" in report["error"]


def test_a_dump_that_was_not_closed_is_inconclusive(tmp_path: Path, capsys: Any) -> None:
    """No difference, but the engine was killed or still runs: 3, and why."""
    path = tmp_path / "open.h5"
    builder = DumpBuilder(path, arm="run")
    request = builder.request("r1", TOKENS[:2])
    builder.site("model.layers.0:out", layer_index=0)
    builder.observe("model.layers.0:out", np.ones((2, 4), np.float32), [(request, 0, 2)])
    builder.commit([(request, 0, 2)])
    status, report = run(capsys, path, path)
    builder.close()
    assert status == 3
    assert any("not closed" in gap for gap in report["coverage"]["gaps"])


@pytest.mark.parametrize("kind", [EventKind.GAP, EventKind.FAULT])
def test_what_a_recorder_missed_is_inconclusive(
    tmp_path: Path, capsys: Any, kind: EventKind
) -> None:
    """A gap or a fault in the recording: 3, and its text in the gaps."""
    path = tmp_path / "gap.h5"
    with DumpBuilder(path, arm="run") as builder:
        request = builder.request("r1", TOKENS[:2])
        builder.site("model.layers.0:out", layer_index=0)
        builder.observe("model.layers.0:out", np.ones((2, 4), np.float32), [(request, 0, 2)])
        builder.event(kind, text="layer 7 ran inside a graph")
        builder.commit([(request, 0, 2)])
    status, report = run(capsys, path, path)
    assert status == 3
    assert any("layer 7 ran inside a graph" in gap for gap in report["coverage"]["gaps"])


def test_an_unpaired_cell_is_inconclusive(tmp_path: Path, capsys: Any) -> None:
    """A row that one arm alone has, and nothing explains: 3."""
    paths = []
    for rows in (4, 3):
        paths.append(tmp_path / f"{rows}.h5")
        with DumpBuilder(paths[-1], arm="run") as builder:
            request = builder.request("r1", TOKENS[:4])
            builder.site("model.layers.0:out", layer_index=0)
            values = np.ones((rows, 4), np.float32)
            builder.observe("model.layers.0:out", values, [(request, 0, rows)])
            builder.commit([(request, 0, rows)])
    status, report = run(capsys, *paths)
    assert (status, report["coverage"]["missing_in_candidate"]) == (3, 1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--pair", "r1"], "--pair r1"),
        (["--pair", "r1=nobody"], "nobody"),
    ],
)
def test_wrong_words_get_one_line(
    cold: Path, warm: Path, words: list[str], says: str, capsys: Any
) -> None:
    """2, one line that names what was wrong."""
    assert main(["diff", str(cold), str(warm), *words]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1


def test_the_report_has_every_fixed_key(cold: Path, tmp_path: Path, capsys: Any) -> None:
    """Others script against these names."""
    plant = Plant("model.layers.1.self_attn:key", 9)
    faulty = toy_dump(tmp_path / "faulty.h5", [FILL, REST], arm="warm", plants=[plant])
    _, report = run(capsys, cold, faulty)
    assert report["format"] == "layerdiff.report/1"
    assert set(report) >= {
        "format", "verdict", "error", "baseline", "candidate", "coverage", "origins", "controls",
        "warnings",
    }  # fmt: skip
    assert set(report["coverage"]) >= {
        "compared", "carried", "missing_in_baseline", "missing_in_candidate", "hit_tokens", "gaps"
    }  # fmt: skip
    origin = report["origins"][0]
    assert set(origin) >= {
        "rank", "request_id", "role", "layer_index", "layer_kind", "site", "tensor", "moment",
        "position", "level", "origin_kind", "cause", "also", "confidence", "proved", "kernel",
        "evidence", "ruled_out", "severity", "reach", "next_step",
    }  # fmt: skip
    assert set(origin["kernel"]) == {"baseline", "candidate", "source"}
    assert set(origin["severity"]) == {"relative", "incoming", "class"}
    assert set(origin["reach"]) >= {"cells", "layers", "top1_flips"}


def test_the_text_answers_in_its_first_line(cold: Path, tmp_path: Path, capsys: Any) -> None:
    """Verdict, layer, token and what, before anything else."""
    plant = Plant("model.layers.1.self_attn:out", 9)
    faulty = toy_dump(tmp_path / "faulty.h5", [FILL, REST], arm="warm", plants=[plant])
    assert main(["diff", str(cold), str(faulty)]) == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("DIVERGED  layer 1 (full attention) · token 9 · kernel ")


def test_a_report_can_be_written_to_a_file(cold: Path, warm: Path, tmp_path: Path) -> None:
    """-o FILE; a file that cannot be written is a usage error."""
    out = tmp_path / "report.json"
    assert main(["diff", str(cold), str(warm), "--format", "json", "-o", str(out)]) == 0
    assert json.loads(out.read_text())["verdict"] == "identical"
    assert main(["diff", str(cold), str(warm), "-o", str(tmp_path / "no" / "x")]) == 2


def test_digests_with_other_keys_are_not_compared(tmp_path: Path, capsys: Any) -> None:
    """Equal rows have different digests under different keys: 2, not a divergence."""
    paths = []
    for name, check in (("plain", None), ("one", "1111"), ("two", "2222")):
        paths.append(tmp_path / f"{name}.h5")
        header = {} if check is None else {"key_check": check}
        with DumpBuilder(paths[-1], arm="run", header=header) as builder:
            request = builder.request("r1", TOKENS[:2])
            builder.site("model.layers.0:out", layer_index=0)
            builder.observe("model.layers.0:out", np.ones((2, 4), np.float32), [(request, 0, 2)])
            builder.commit([(request, 0, 2)])
    for a, b in ((0, 1), (1, 0), (1, 2)):
        status, report = run(capsys, paths[a], paths[b])
        assert status == 2
        assert "key" in report["error"]
    status, _ = run(capsys, paths[1], paths[1])
    assert status == 0


def one_row_dump(path: Path, values: np.ndarray, dtype: str | None = None) -> Path:
    """A dump with the rows of one site."""
    with DumpBuilder(path, arm="run") as builder:
        request = builder.request("r1", TOKENS[: len(values)])
        builder.site("model.layers.0:out", layer_index=0)
        span = (request, 0, len(values))
        builder.observe("model.layers.0:out", values, [span], dtype=dtype)
        builder.commit([span])
    return path


def _bits(values: np.ndarray) -> np.ndarray:
    return values.view(np.uint32)


def swapped(values: np.ndarray) -> None:
    """Two elements of one row."""
    values[1, [2, 3]] = values[1, [3, 2]]


def permuted(values: np.ndarray) -> None:
    """Two whole rows."""
    values[[1, 3]] = values[[3, 1]]


def negative_zero(values: np.ndarray) -> None:
    """0.0 becomes -0.0."""
    values[1, 0] = -0.0


def nan_payload(values: np.ndarray) -> None:
    """Another NaN."""
    _bits(values)[1, 1] ^= 1


@pytest.mark.parametrize("change", [swapped, permuted, negative_zero, nan_payload])
def test_bits_are_compared_not_values(tmp_path: Path, capsys: Any, change: Any) -> None:
    """What compares equal as numbers, or as a set of numbers, differs by bits."""
    values = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    values[1, 0], values[1, 1] = 0.0, np.nan
    changed = values.copy()
    change(changed)
    a, b = one_row_dump(tmp_path / "a.h5", values), one_row_dump(tmp_path / "b.h5", changed)
    status, report = run(capsys, a, b)
    assert (status, report["origins"][0]["position"]) == (1, 1)
    assert run(capsys, a, a)[0] == 0


def test_a_dtype_is_part_of_a_row(tmp_path: Path, capsys: Any) -> None:
    """The same bytes under another dtype are another row."""
    values = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    a = one_row_dump(tmp_path / "a.h5", values)
    b = one_row_dump(tmp_path / "b.h5", values, dtype="int32")
    assert run(capsys, a, b)[0] == 1


def test_a_request_without_a_partner_is_a_gap(cold: Path, tmp_path: Path, capsys: Any) -> None:
    """Something else was served too and cannot be compared: 3, and how to compare the rest."""
    extra = [ToyRequest("x", OTHER), FILL, REST]
    both = toy_dump(tmp_path / "both.h5", extra, arm="warm")
    status, report = run(capsys, cold, both)
    assert status == 3
    assert any("'x'" in gap for gap in report["coverage"]["gaps"])
    status, report = run(capsys, f"{cold}::r1", f"{both}::r1")
    assert (status, report["coverage"]["gaps"]) == (0, [])


@pytest.mark.parametrize("longer", [0, 1])
def test_tokens_that_one_arm_alone_generated_are_not_compared(
    tmp_path: Path, capsys: Any, longer: int
) -> None:
    """The same prompt, but one run went on for longer: 3, whichever it was."""
    paths = []
    for arm in (0, 1):
        paths.append(tmp_path / f"{arm}.h5")
        count = 4 if arm == longer else 3
        with DumpBuilder(paths[-1], arm="run") as builder:
            request = builder.request("r1", TOKENS[:count], given=2)
            builder.site("model.layers.0:out", layer_index=0)
            values = np.ones((count, 4), np.float32)
            builder.observe("model.layers.0:out", values, [(request, 0, count)])
            builder.commit([(request, 0, count)])
    status, report = run(capsys, *paths)
    assert (status, report["coverage"]["not_comparable"]) == (3, 1)


def test_a_tensor_without_token_rows_is_not_compared(tmp_path: Path, capsys: Any) -> None:
    """It depends on the chunks; that it was left out is said."""
    path = tmp_path / "whole.h5"
    with DumpBuilder(path, arm="run") as builder:
        request = builder.request("r1", TOKENS[:4])
        for name in ("model.layers.0:out", "model.layers.0.experts:out"):
            builder.site(name, layer_index=0)
        span = [(request, 0, 4)]
        builder.observe("model.layers.0:out", np.ones((4, 4), np.float32), span)
        builder.observe("model.layers.0.experts:out", np.ones((1, 9), np.float32), span, flags=4)
        builder.commit(span)
    status, report = run(capsys, path, path)
    assert status == 3
    assert any("experts:out" in gap for gap in report["coverage"]["gaps"])


def test_a_bit_that_flipped_on_disk_is_no_divergence(cold: Path, warm: Path, capsys: Any) -> None:
    """Digests that do not match the root they were written with: 2, a damaged file."""
    with Dump.open(warm) as dump:
        digests = dump.digests(40, 2).astype("<u8").tobytes()
    content = warm.read_bytes()
    assert content.count(digests) == 1
    at = content.index(digests)
    warm.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    status, report = run(capsys, cold, warm)
    assert status == 2
    assert "damaged" in report["error"]
