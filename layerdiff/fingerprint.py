"""Whether two dumps come from the same model."""

from typing import Any

from layerdiff.errors import PairingError
from layerdiff.format.reader import Dump


def model_facts(dump: Dump) -> dict[str, Any]:
    """What the header says of the model; empty when it says nothing."""
    facts = dump.header.get("model")
    return facts if isinstance(facts, dict) else {}


def same_architecture(baseline: Dump, candidate: Dump) -> None:
    """Checks that both dumps hold the same kind of model.

    Raises:
        PairingError: They do not, so that no cell of one belongs to a cell of the other.
    """
    ours, theirs = model_facts(candidate), model_facts(baseline)
    for fact, words in (("class", "model class"), ("architecture", "configuration")):
        if fact in ours and fact in theirs and ours[fact] != theirs[fact]:
            raise PairingError(
                f"another architecture: the {words} is {theirs[fact]} in {baseline.path} and "
                f"{ours[fact]} in {candidate.path}"
            )
    names = {site.name for site in baseline.sites}
    if names and candidate.sites and not any(site.name in names for site in candidate.sites):
        raise PairingError(
            f"another architecture: {baseline.path} and {candidate.path} have no site in common "
            f"({baseline.sites[0].name} and {candidate.sites[0].name} are their first)"
        )


def same_key(baseline: Dump, candidate: Dump) -> None:
    """Checks that the digests of both dumps were keyed alike.

    Raises:
        PairingError: They were not, so that equal rows have different digests.
    """
    ours, theirs = candidate.header.get("digest"), baseline.header.get("digest")
    if ours is not None and theirs is not None and ours != theirs:
        raise PairingError(f"other digests: {baseline.path} has {theirs}, {candidate.path} {ours}")
    ours, theirs = candidate.header.get("key_check"), baseline.header.get("key_check")
    if ours == theirs:
        return
    without = baseline.path if theirs is None else candidate.path
    if ours is None or theirs is None:
        raise PairingError(f"{without} was recorded without --key and the other dump with one")
    raise PairingError(
        f"{baseline.path} and {candidate.path} were recorded with different keys; use one key "
        "file for all arms"
    )


def weights_mismatch(baseline: Dump, candidate: Dump) -> str | None:
    """What differs between the weights, or None where they agree or are not known."""
    ours, theirs = model_facts(candidate), model_facts(baseline)
    for fact in ("weights", "adapter", "dtype"):
        if ours.get(fact) != theirs.get(fact) and fact in ours and fact in theirs:
            return f"{fact} differ: {theirs[fact]} in the baseline, {ours[fact]} in the candidate"
    return None
