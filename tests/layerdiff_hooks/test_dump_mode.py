"""A program that knows nothing of layerdiff, recorded by the command and by the variable."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from layerdiff_hooks.dump_mode import next_free, settings_from
from tests.layerdiff_hooks.reading import read

ROOT = Path(__file__).parents[2]
START = "import layerdiff_hooks.dump_mode as m; m.start_from_environment()"
SCRIPT = """
import copy, sys, torch
from tests.families import build, tokens
torch.set_num_threads(1)
model, ids = build("qwen3_next"), tokens(1, 16)
with torch.no_grad():
    cache = None
    if "warm" in sys.argv:
        cache = copy.deepcopy(model(ids[:, :10], use_cache=True).past_key_values)
    out = model.generate(ids, past_key_values=cache, max_new_tokens=3, do_sample=False)
print(out.tolist())
sys.exit(7 if "seven" in sys.argv else 0)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The program."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def python(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs Python with the packages on its path."""
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "hooks")))
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LAYERDIFF_")}
    return subprocess.run(
        [sys.executable, "-W", "ignore", *map(str, words)],
        env={**clean, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs ``layerdiff record``."""
    program = (
        "import argparse, sys\n"
        "from layerdiff.errors import LayerdiffError\n"
        "from layerdiff_hooks.commands.record import RecordCommand\n"
        "command, parser = RecordCommand(), argparse.ArgumentParser()\n"
        "command.configure(parser)\n"
        "try:\n    sys.exit(command.run(parser.parse_args()))\n"
        "except LayerdiffError as error:\n"
        "    print(error, file=sys.stderr); sys.exit(error.exit_status)\n"
    )
    return python("-c", program, *words)


def test_the_command_records_two_arms(script: Path, tmp_path: Path) -> None:
    """The program's output and status are its own; the warm dump has a hit."""
    printed = []
    for arm in ("cold", "warm"):
        path = tmp_path / f"{arm}.h5"
        done = command("-o", path, "--arm", arm, "--", script, arm, "seven")
        assert done.returncode == 7, done.stderr
        printed.append(done.stdout)
    assert printed[0] == f"{printed[0].strip()}\n"
    cold, warm = read(tmp_path / "cold.h5"), read(tmp_path / "warm.h5")
    assert [r.hit for r in cold.requests.values()] == [0]
    assert [r.hit for r in warm.requests.values()] == [0, 10]
    assert (cold.dump.arm, warm.dump.arm) == ("cold", "warm")
    assert cold.troubles + warm.troubles == []
    assert warm.dump.complete


def test_the_variable_records_the_same(script: Path, tmp_path: Path) -> None:
    """Started as by the path file, twice; a file that exists is kept, the next name taken."""
    path = tmp_path / "out.h5"
    runner = (
        f"{START}; m.start_from_environment()\n"
        f"import runpy, sys; sys.argv = ['s', 'warm']; runpy.run_path({str(script)!r})"
    )
    path.write_text("precious")
    done = python("-c", runner, LAYERDIFF_RECORD=str(path), LAYERDIFF_ARM="warm")
    assert "exists, so" in done.stderr
    assert path.read_text() == "precious"
    reading = read(tmp_path / "out.1.h5")
    assert [r.hit for r in reading.requests.values()] == [0, 10]
    assert (reading.dump.arm, reading.dump.complete) == ("warm", True)
    assert not (tmp_path / "out.2.h5").exists()


def test_unset_it_loads_nothing() -> None:
    """Without the variable neither torch nor the recorder is imported, and nothing is raised."""
    done = python(
        "-c", f"{START}; import sys; print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    assert (done.returncode, done.stdout) == (0, "False False\n")


def test_set_it_waits_for_torch(tmp_path: Path) -> None:
    """A process without torch runs as it would, and no file appears."""
    path = tmp_path / "out.h5"
    done = python(
        "-c", f"{START}; import sys; print('torch' in sys.modules)", LAYERDIFF_RECORD=str(path)
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
    assert not path.exists()


def test_a_second_model_gets_a_file_of_its_own(tmp_path: Path) -> None:
    """Each model that runs is recorded apart."""
    path = tmp_path / "out.h5"
    program = (
        f"{START}\nimport torch\nfrom tests.families import build, tokens\n"
        "for family in ('llama', 'mamba'):\n"
        "    build(family)(tokens(1, 5))\n"
    )
    done = python("-c", program, LAYERDIFF_RECORD=str(path))
    assert done.returncode == 0, done.stderr
    assert read(path).dump.header["model"]["class"] == "LlamaForCausalLM"
    assert read(tmp_path / "out.1.h5").dump.header["model"]["class"] == "MambaForCausalLM"


def test_a_program_without_a_model_is_status_2(tmp_path: Path) -> None:
    """Nothing recorded is said, and is no success."""
    (tmp_path / "empty.py").write_text("print('hello')\n")
    done = command("-o", tmp_path / "a.h5", "--", tmp_path / "empty.py")
    assert (done.returncode, done.stdout) == (2, "hello\n")
    assert "no pass of a model was recorded" in done.stderr


def test_an_existing_dump_is_refused_before_the_program_runs(script: Path, tmp_path: Path) -> None:
    """Without --force the file is kept."""
    (tmp_path / "a.h5").write_text("precious")
    done = command("-o", tmp_path / "a.h5", "--", script)
    assert (done.returncode, done.stdout) == (2, "")
    assert "exists already" in done.stderr
    assert (tmp_path / "a.h5").read_text() == "precious"


def test_a_failing_program_keeps_its_status(tmp_path: Path) -> None:
    """An uncaught error is printed and makes status 1, as without us."""
    (tmp_path / "bad.py").write_text("raise RuntimeError('planted')\n")
    done = command("-o", tmp_path / "a.h5", "--", tmp_path / "bad.py")
    assert done.returncode == 1
    assert "RuntimeError: planted" in done.stderr


def test_settings_come_from_the_environment() -> None:
    """Names as documented; nothing without the first."""
    assert settings_from({}) is None
    found = settings_from({"LAYERDIFF_RECORD": "o.h5", "LAYERDIFF_SELECT": "a,b"})
    assert found is not None
    assert (found.arm, found.select) == ("cold", ("a", "b"))
    assert next_free(Path("x/o.h5"), 2) == Path("x/o.2.h5")


@pytest.mark.parametrize("words", [["nosuch.py"], ["-m"]])
def test_a_program_that_is_not_there_gets_one_line(words: list[str], tmp_path: Path) -> None:
    """Exit 2 before anything is made, and no traceback."""
    command = [sys.executable, "-m", "layerdiff", "record", "-o", str(tmp_path / "x.h5"), "--arm"]
    done = subprocess.run([*command, "cold", "--", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "x.h5").exists()
