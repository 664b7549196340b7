"""What to look at next, by cause."""

from layerdiff.vocabulary import Cause

STEPS = {
    Cause.REQUEST_MISMATCH: "run both arms with the same input, then compare again",
    Cause.WEIGHTS_MISMATCH: "load the same weights in both arms, then compare again",
    Cause.NONDETERMINISM: (
        "make this kernel give the same bits for the same inputs, then compare cold with warm"
        " again"
    ),
    Cause.KEY_COLLISION: (
        "put into the key all that the cached value depends on, and check it on a hit"
    ),
    Cause.DRAFTER_STATE: (
        "save and restore what the drafter goes on from with each checkpoint, or decline the "
        "hit where it is absent"
    ),
    Cause.STATE_ZERO: "check which slot the restore reads, and that something wrote it before",
    Cause.ROLLBACK_MISSING: (
        "after a rejection, take rows and states back to the last accepted token"
    ),
    Cause.STATE_WRONG_POSITION: (
        "check at which position the state was saved, and under which it is kept"
    ),
    Cause.STATE_NOT_WRITTEN: "check that this pass writes its last state back",
    Cause.LAYOUT: "compare the axes and strides with which the value is saved and loaded",
    Cause.DTYPE_REQUANT: "cast or quantise once, and keep codes and scales as they are",
    Cause.KV_ORDER: "check the order in which rows are copied, and the positions they go by",
    Cause.KV_LENGTH: "cut the cache to where this pass begins, in every layer, or decline the hit",
    Cause.KV_MIXED_ORIGIN: (
        "take rows and state of one prefix from one writer, or end a chunk at every boundary "
        "so that all writers give the same bits; rewrite what a replay computes again"
    ),
    Cause.KV_OVERWRITTEN: "check who may hand out a block that is still referenced",
    Cause.STATE_FOREIGN: (
        "follow the slot or block: who was given it between its writing and its reading"
    ),
    Cause.STATE_CORRUPTED: "look at what runs between the writing of this value and its reading",
    Cause.ROPE_REGIME: (
        "keep keys unrotated, or rotate the cached ones again when the frequencies change"
    ),
    Cause.ROPE_OFFSET: (
        "give the rotary embedding the token's own position, counted from its request's first"
    ),
    Cause.MASK_SEAM: "anchor the mask at the end of the keys, not at the first query",
    Cause.KV_READ_PATH: (
        "compare the block table, length and stride that the kernel is given with the cache's own"
    ),
    Cause.STALE_READ: "mask what lies behind the last owned row, or zero it",
    Cause.PAD_CONTAMINATION: "mask pad rows out of convolutions and recurrences",
    Cause.PARTIAL_MERGE: (
        "check the base of the log-sum-exp and the empty parts where results are merged"
    ),
    Cause.OUTPUT_BUFFER: "check which row of which buffer is reported and sampled from",
    Cause.DISCRETE_TIE: "look at what made the scores differ; the choice only amplifies it",
    Cause.STATE_IGNORED: "find out why the restored state does not reach this kernel",
    Cause.COMPILE_MODE: "run both arms in one mode, then compare again",
    Cause.KERNEL_MISMATCH: "make runs that reuse take the baseline's kernel",
    Cause.BATCH_COMPOSITION: "make the row's arithmetic independent of the rest of its batch",
    Cause.SHAPE_DISPATCH: (
        "reuse added nothing: this kernel gives other bits at the other shape; give both arms"
        " the same chunks, or fix the kernel's dispatch"
    ),
    Cause.BOTH_WRONG: "both arms share this fault: compare each with the reference",
}
"""Causes of whole arms and unknown ones have no step of their own."""
