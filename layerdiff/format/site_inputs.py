"""The site graph: which sites each site depends on, proved to have no cycle."""

from typing import Any, Final

import numpy as np

from layerdiff.format import schema
from layerdiff.format.damage import Broken
from layerdiff.format.text import Texts

_MAX_EDGES: Final = 1 << 21


def site_inputs(identifiers: np.ndarray[Any, Any], texts: Texts) -> list[tuple[int, ...]]:
    """The sites that each site depends on; together they must have no cycle."""
    known: dict[int, tuple[int, ...]] = {schema.NO_TEXT: ()}
    inputs = []
    edges = 0
    for identifier in identifiers.tolist():
        if identifier not in known:
            known[identifier] = _parse_inputs(texts.raw(identifier), len(identifiers))
        inputs.append(known[identifier])
        edges += len(known[identifier])
        if edges > _MAX_EDGES:
            raise Broken(f"the site graph has more than {_MAX_EDGES} edges")
    _check_acyclic(inputs)
    return inputs


def _parse_inputs(text: str, count: int) -> tuple[int, ...]:
    if not text:
        return ()
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        raise Broken("a site's inputs are no list of sites")
    ids = tuple(int(word) for word in words)
    if max(ids) >= count:
        raise Broken(f"a site depends on site {max(ids)}, of which there are {count}")
    return ids


def _check_acyclic(inputs: list[tuple[int, ...]]) -> None:
    users: list[list[int]] = [[] for _ in inputs]
    open_inputs = [len(ids) for ids in inputs]
    for site, ids in enumerate(inputs):
        for source in ids:
            users[source].append(site)
    ready = [site for site, missing in enumerate(open_inputs) if not missing]
    done = 0
    while ready:
        done += 1
        for user in users[ready.pop()]:
            open_inputs[user] -= 1
            if not open_inputs[user]:
                ready.append(user)
    if done != len(inputs):
        raise Broken("the site graph has a cycle")
