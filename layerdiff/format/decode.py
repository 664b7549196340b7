"""Turns rows of checked tables into the records that a reader hands out."""

from typing import Any

import numpy as np

from layerdiff.format import schema
from layerdiff.format.records import Event, Kernel, Request, Site
from layerdiff.format.site_inputs import site_inputs
from layerdiff.format.text import Texts, json_object
from layerdiff.vocabulary import EventKind, Reach, Role, TensorKind

Array = np.ndarray[Any, Any]


def requests(records: Array, texts: Texts) -> tuple[Request, ...]:
    """All requests as they were told, by index."""
    return tuple(
        Request(
            index=index,
            name=texts(name),
            pass_index=pass_index,
            batch_row=batch_row,
            explicit=bool(flags & schema.REQUEST_EXPLICIT),
            source=_known(source),
            hit=_known(hit),
            told=_known(hit),
        )
        for index, (name, pass_index, batch_row, flags, source, hit) in enumerate(records.tolist())
    )


def sites(records: Array, texts: Texts) -> tuple[Site, ...]:
    """All sites, by index.

    Raises:
        Broken: The inputs of one are no list of sites, or they form a cycle.
    """
    inputs = site_inputs(records["inputs"], texts)
    return tuple(
        Site(
            index=index,
            name=texts(name),
            layer_index=_known(layer_index),
            layer_kind=texts(layer_kind),
            role=Role(role),
            kind=TensorKind(kind),
            reach=Reach(reach),
            inputs=inputs[index],
            glue=bool(flags & schema.SITE_GLUE),
        )
        for index, (name, layer_index, layer_kind, role, kind, reach, flags, _) in enumerate(
            records.tolist()
        )
    )


def kernels(records: Array, texts: Texts) -> tuple[Kernel, ...]:
    """All kernels, by index; equal facts are parsed once."""
    parsed: dict[int, dict[str, object]] = {schema.NO_TEXT: {}}
    for identifier in np.unique(records["facts"]).tolist():
        if identifier not in parsed:
            what = f"text {identifier} (kernel facts)"
            parsed[identifier] = json_object(texts.raw(identifier), what)
    return tuple(
        Kernel(index=index, name=texts(name), facts=parsed[facts], source=texts(source))
        for index, (name, facts, source) in enumerate(records.tolist())
    )


def events(records: Array, texts: Texts) -> tuple[Event, ...]:
    """All events, in order of writing."""
    return tuple(
        Event(
            index=index,
            pass_index=pass_index,
            kind=EventKind(kind),
            request=_known(request),
            site=_known(site),
            source_request=_known(source_request),
            source_pass=_known(source_pass),
            start=_known(start),
            stop=_known(stop),
            value=_known(value),
            text=texts(text),
            place=_known(place),
            generation=_known(generation),
        )
        for index, (
            pass_index,
            kind,
            request,
            site,
            source_request,
            source_pass,
            start,
            stop,
            value,
            text,
            place,
            generation,
        ) in enumerate(records.tolist())
    )


def _known(number: int) -> int | None:
    return None if number == schema.NONE else number
