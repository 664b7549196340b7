"""Few rows, hashed at once and sketched together, give what `digest_rows` gives for each."""

import numpy as np
import pytest
import torch

from layerdiff.digest import derive_key
from layerdiff_hooks.few_rows import are_few, digest_few, sketch_copied
from layerdiff_hooks.rows import digest_rows, plain_tensor

DTYPES = [
    *(torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.float8_e4m3fn),
    *(torch.int8, torch.int64, torch.bool, torch.uint16, torch.complex64, torch.complex128),
]
SHAPES = [(1, 1, 64), (1, 1, 2, 16), (1, 4, 8, 16), (3, 1, 97), (2, 5, 98), (1, 1, 1000)]
SPECIAL = {"plain": None, "zero": 0.0, "nan": float("nan"), "infinite": float("inf")}


def tensors(dtype: torch.dtype) -> list[torch.Tensor]:
    """Some of each shape, contiguous and not, with ordinary and special values."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for shape in SHAPES:
        for kind, value in SPECIAL.items():
            if kind in ("nan", "infinite") and not (dtype.is_floating_point or dtype.is_complex):
                continue
            plain = torch.randn(shape, generator=generator) * 3
            if value is not None:
                plain[..., slice(None) if kind == "zero" else 1] = value
            tensor = plain.to(dtype)
            found += [tensor, tensor.transpose(-1, -2).contiguous().transpose(-1, -2)]
    return found


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_they_are_reduced_to_the_same_bits(dtype: torch.dtype, grid: bool) -> None:
    """Digests, elements, sketches and facts, keyed as well."""
    given = tensors(dtype)
    for key in (None, derive_key(b"secret")):
        whole = [digest_rows(t, key=key, elements=True, grid=grid) for t in given]
        few = [digest_few(plain_tensor(t), key=key, elements=True, grid=grid) for t in given]
        copied = [block.copied for block in few if block.copied is not None]
        sketches, nan_counts = sketch_copied(copied, sketch=True)
        expected = np.concatenate(
            [b.sketches.reshape(-1, 5) for b in whole if b.sketches is not None]
        )
        np.testing.assert_array_equal(sketches, expected)
        assert nan_counts == [block.nan_count for block in whole]
        for one, other in zip(whole, few, strict=True):
            np.testing.assert_array_equal(one.digests, other.digests)
            np.testing.assert_array_equal(one.elements, other.elements)
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert one.all_zero == other.all_zero


def test_blocks_of_all_kinds_share_a_pass() -> None:
    """Sketches come back in the order in which blocks were seen."""
    mixed = [tensor for dtype in DTYPES[:4] for tensor in tensors(dtype)[::3]][::-1]
    blocks = [digest_few(plain_tensor(tensor), key=None).copied for tensor in mixed]
    sketches, _ = sketch_copied([block for block in blocks if block is not None], sketch=True)
    whole = [digest_rows(tensor).sketches for tensor in mixed]
    expected = np.concatenate([found.reshape(-1, 5) for found in whole if found is not None])
    np.testing.assert_array_equal(sketches, expected)


def test_nans_are_counted_without_sketches_too() -> None:
    """A key leaves sketches out, not the count."""
    tensor = torch.tensor([[[1.0, float("nan"), float("nan")]]])
    copied = digest_few(plain_tensor(tensor), key=None).copied
    assert copied is not None
    sketches, nan_counts = sketch_copied([copied], sketch=False)
    assert (len(sketches), nan_counts) == (0, [2])


def test_nothing_and_much_are_not_few() -> None:
    """Those go the other way."""
    assert not are_few(torch.zeros(0, 1, 4))
    assert not are_few(torch.zeros(4096, 1, 64))
    assert are_few(torch.zeros(1, 1, 64))


def test_a_copy_outlives_its_tensor() -> None:
    """What is written to the tensor later does not show."""
    tensor = torch.ones(1, 1, 64)
    copied = digest_few(plain_tensor(tensor), key=None).copied
    expected = digest_rows(tensor).sketches
    tensor.zero_()
    assert copied is not None
    assert expected is not None
    np.testing.assert_array_equal(sketch_copied([copied], sketch=True)[0], expected[0])
