"""Arms that differ behind the head, before the first layer, or not at all."""

from pathlib import Path

from layerdiff.vocabulary import Cause, Confidence, Verdict
from layerdiff_samples.cases import CASES
from layerdiff_samples.cases.outputs import CHANGED
from layerdiff_samples.cases.reading import ATTENTION, HIT, PLAIN, TEXT
from tests.layerdiff_samples.hunting import compared, first, hunted


def test_logits_from_another_row(tmp_path: Path) -> None:
    """Everything agrees up to the head; what is given out for the prompt's last token does not."""
    report = hunted(CASES["output-buffer"], tmp_path)
    origin = first(report)
    assert len(report.origins) == 1
    assert (origin.cause, origin.confidence) == (Cause.OUTPUT_BUFFER, Confidence.PROVED)
    assert (origin.layer_index, origin.tensor, origin.position) == (None, "logits", len(TEXT) - 1)


def test_one_row_has_no_other_to_be_taken_for(tmp_path: Path) -> None:
    """The mate is done before anything of the compared request is sampled."""
    assert hunted(CASES["output-buffer-alone"], tmp_path).verdict is Verdict.IDENTICAL


def test_a_fault_of_both_arms_needs_a_reference(tmp_path: Path) -> None:
    """Cold and warm agree; the healthy engine shows that both are wrong, and how."""
    assert compared(CASES["both-wrong"], tmp_path).verdict is Verdict.IDENTICAL
    report = hunted(CASES["both-wrong"], tmp_path, reference=True)
    origin = first(report)
    assert report.verdict is Verdict.DIVERGED
    assert (origin.cause, origin.confidence) == (Cause.BOTH_WRONG, Confidence.PROVED)
    assert Cause.ROPE_OFFSET in origin.also
    # The second pass is the first that does not begin at 0.
    assert (origin.layer_index, origin.tensor) == (ATTENTION, "query")
    assert origin.position == PLAIN.prefill_stride


def test_another_prompt_is_told_before_any_tensor(tmp_path: Path) -> None:
    """The first token that differs, and no layer."""
    report = hunted(CASES["request-mismatch"], tmp_path)
    origin = first(report)
    assert (origin.cause, origin.tensor) == (Cause.REQUEST_MISMATCH, "tokens")
    assert (origin.layer_index, origin.position) == (None, CHANGED)
    assert len(report.origins) == 1


def test_other_weights_are_told_before_any_tensor(tmp_path: Path) -> None:
    """By the header; the tensors that differ for it are given no cause of their own."""
    report = hunted(CASES["weights-mismatch"], tmp_path)
    assert first(report).cause is Cause.WEIGHTS_MISMATCH
    assert {origin.cause for origin in report.origins[1:]} <= {Cause.UNKNOWN}


def test_a_cold_run_that_is_not_cold(tmp_path: Path) -> None:
    """No difference, and no verdict: the order of measuring warmed the cache, and who did it."""
    report = hunted(CASES["cold-not-cold"], tmp_path)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert [found.cause for found in report.arm_causes] == [Cause.COLD_NOT_COLD]
    words = next(text for text in report.warnings if text.startswith("cold:"))
    assert f"a hit of {HIT} tokens by request 'fill'" in words
    assert "order of measuring itself warmed the cache" in words
