"""Which site comes after which: the order in which a difference can spread inside a pass."""

from graphlib import CycleError, TopologicalSorter

from layerdiff.errors import NotADump
from layerdiff.format.reader import Dump, Site
from layerdiff.vocabulary import TensorKind


def in_order(dump: Dump) -> tuple[Site, ...]:
    """The sites, each after all it depends on; parallel branches in the order of recording.

    Raises:
        NotADump: The recorded inputs run in a circle.
    """
    sorter = TopologicalSorter({site.index: sorted(site.inputs) for site in dump.sites})
    depth: dict[int, int] = {}
    try:
        for index in sorter.static_order():
            inputs = dump.sites[index].inputs
            depth[index] = 1 + max((depth[i] for i in inputs), default=-1)
    except CycleError as error:
        names = " -> ".join(dump.sites[index].name for index in error.args[1][:6])
        raise NotADump(dump.path, f"its sites depend on each other in a circle: {names}") from None
    return tuple(dump.sites[i] for i in sorted(depth, key=lambda i: (depth[i], i)))


def margins(dump: Dump) -> frozenset[int]:
    """Sites that hold by how much a top-k was decided: differences of nearly equal scores."""
    return frozenset(
        index
        for site in dump.sites
        if site.kind is TensorKind.TOPK
        for index in site.inputs
        if dump.sites[index].kind is TensorKind.SCALE and dump.sites[index].inputs
    )
