"""What the engine's own books say of the rows that a pass reads and writes."""

from layerdiff.vocabulary import EventKind
from layerdiff_samples.engine.block_pool import BlockPool
from layerdiff_samples.engine.recording import Recording
from layerdiff_samples.engine.request import Chunk
from layerdiff_samples.engine.writer import Writer


def tell_reads(recording: Recording, pool: BlockPool, chunk: Chunk) -> None:
    """An event for each block and writer of the rows before a chunk."""
    if not recording.on or not pool.keys:
        return
    request, table = chunk.request, pool.table_for_kernel(chunk.request)
    for first, stop, writer in request.written:
        for index in range(first // pool.size, -(-stop // pool.size)):
            recording.event(
                EventKind.KV_READ,
                request=request,
                writer=writer,
                start=max(first, index * pool.size),
                stop=min(stop, (index + 1) * pool.size),
                place=table[index],
                generation=pool.generation[table[index]],
                text="kv",
            )


def tell_writes(recording: Recording, pool: BlockPool, chunk: Chunk, writer: Writer) -> None:
    """Books the rows of a chunk, with an event for each block."""
    request = chunk.request
    stop = request.kv_length + chunk.rows
    start = min(stop, max(request.kv_length, pool.write_floor(request)))
    book(request.written, start, stop, writer)
    if not recording.on or not pool.keys:
        return
    for index in range(start // pool.size, -(-stop // pool.size)):
        block = request.table[index]
        recording.event(
            EventKind.KV_WRITE,
            request=request,
            start=max(start, index * pool.size),
            stop=min(stop, (index + 1) * pool.size),
            place=block,
            generation=pool.generation[block],
            text="kv",
        )


def book(written: list[tuple[int, int, Writer]], start: int, stop: int, writer: Writer) -> None:
    """Rows [start, stop) were written; what was there before them stays."""
    cut(written, start)
    if stop > start:
        written.append((start, stop, writer))


def cut(written: list[tuple[int, int, Writer]], length: int) -> None:
    """Only rows below *length* are left."""
    while written and written[-1][1] > length:
        start, _, writer = written.pop()
        if start < length:
            written.append((start, length, writer))
            return
