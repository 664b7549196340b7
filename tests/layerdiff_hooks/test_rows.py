"""Torch tensors of any kind are reduced to the digests of their bytes, and left as they were."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from layerdiff.digest import derive_key, element_digests, finalise, zero_digest
from layerdiff.sketch import sketch_rows
from layerdiff_hooks.rows import RowBlock, digest_elements, digest_rows

KEY = derive_key(b"secret")
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
FLOATS += [torch.float8_e4m3fn, torch.float8_e5m2]
COMPLEX = [torch.complex64, torch.complex128]
WHOLE = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool, torch.uint16]
LARGE = (600, 2, 3, 700)
"""Rows, parts and shape of what is reduced in more than one block."""


def values(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """A tensor of small numbers in a dtype."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * 3).to(dtype)


def raw(tensor: torch.Tensor) -> np.ndarray:
    """The bytes in logical order: u1 [rows, parts, nbytes]."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    plain = plain.clone(memory_format=torch.contiguous_format)
    width = plain[0, 0].numel() * plain.element_size() if 0 not in plain.shape[:2] else 0
    return plain.view(torch.uint8).numpy().reshape(*plain.shape[:2], width)


def reference(tensor: torch.Tensor) -> list[list[int]]:
    """The digest of each row and part, by the words of the format."""
    dtype, shape = str(tensor.dtype).split(".")[1], ",".join(map(str, tensor.shape[2:]))
    salt = xxh3_64_intdigest(f"{dtype}:{shape}".encode())
    return [[xxh3_64_intdigest(part.tobytes()) ^ salt for part in row] for row in raw(tensor)]


def assert_same(first: RowBlock, second: RowBlock) -> None:
    """Equal in every field."""
    np.testing.assert_array_equal(first.digests, second.digests)
    np.testing.assert_array_equal(first.sketches, second.sketches)
    np.testing.assert_array_equal(first.elements, second.elements)
    assert (first.nan_count, first.all_zero) == (second.nan_count, second.all_zero)
    assert (first.dtype, first.shape) == (second.dtype, second.shape)


class TestDigests:
    """Digests are those of the raw bytes in logical order."""

    @pytest.mark.parametrize("dtype", FLOATS + COMPLEX + WHOLE, ids=str)
    @pytest.mark.parametrize("shape", [(5, 1, 32), (4, 3, 2, 9), (3, 2), (1, 1, 2048)])
    def test_every_dtype_and_shape(self, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        """Equal to xxhash on the bytes, under torch's name and the row's shape."""
        tensor = values(*shape, dtype=dtype)
        block = digest_rows(tensor)
        assert block.digests.tolist() == reference(tensor)
        assert (block.dtype, block.shape) == (str(dtype).removeprefix("torch."), shape[2:])
        assert block.sketches is not None
        assert block.sketches.shape == (*shape[:2], 5)
        assert block.elements is None

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
    def test_large_tensors_go_by_blocks(self, dtype: torch.dtype) -> None:
        """The rows of many blocks are those of each row alone."""
        tensor = values(*LARGE, dtype=dtype)
        block = digest_rows(tensor)
        assert block.digests.tolist() == reference(tensor)
        assert block.sketches is not None
        for row in (0, 299, 599):
            alone = digest_rows(tensor[row : row + 1])
            assert alone.digests[0].tolist() == block.digests[row].tolist()
            assert alone.sketches is not None
            np.testing.assert_allclose(alone.sketches[0], block.sketches[row], rtol=0, atol=1e-4)

    @pytest.mark.parametrize(
        "view",
        [
            lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
            lambda x: x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
            lambda x: torch.stack([x, -x], -1)[..., 0],
            lambda x: torch.cat([-x, x], 2)[:, :, x.shape[2] :],
            lambda x: x.flip(0).contiguous().flip(0),
            lambda x: torch.nn.Parameter(x),
            lambda x: x.clone().requires_grad_() * 1,
            lambda x: x.numpy(),
            lambda x: np.asfortranarray(x.numpy()),
            lambda x: x.numpy()[::-1].copy()[::-1],
            lambda x: x.numpy().astype(">f4"),
        ],
    )
    def test_memory_does_not_matter(self, view: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Transposed, sliced, differentiable or NumPy: the same elements are the same rows."""
        tensor = values(6, 2, 4, 8)
        expected = digest_rows(tensor, elements=True)
        assert_same(digest_rows(view(tensor), elements=True), expected)

    def test_expanded_rows_are_equal_rows(self) -> None:
        """A stride of zero repeats a row."""
        block = digest_rows(values(1, 1, 8).expand(5, 1, 8))
        assert len(set(block.digests.ravel().tolist())) == 1

    def test_conjugates_and_negatives_are_what_they_read_as(self) -> None:
        """Lazy views of complex tensors are digested as their values."""
        tensor = values(3, 2, 4, dtype=torch.complex64) * 1j
        for lazy in (tensor.conj(), tensor.conj().imag, -tensor.conj()):
            plain = lazy.resolve_conj().resolve_neg().clone()
            assert_same(digest_rows(lazy), digest_rows(plain))

    def test_read_only_arrays_are_read(self) -> None:
        """Without the warning torch gives for them."""
        array = values(3, 1, 8).numpy().copy()
        array.flags.writeable = False
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert digest_rows(array).digests.tolist() == reference(values(3, 1, 8))

    @pytest.mark.parametrize(
        "shape", [(0, 1, 4), (3, 0, 4), (3, 2, 0), (1, 1, 0), (0, 2), (2, 1, 3, 0)]
    )
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
    def test_nothing_is_a_valid_tensor(self, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        """No rows, no parts or no elements: shapes hold, and nothing is called zero."""
        tensor = torch.zeros(shape, dtype=dtype)
        for sketch in (True, False):
            block = digest_rows(tensor, sketch=sketch, elements=True)
            assert block.digests.shape == shape[:2]
            assert block.digests.tolist() == reference(tensor)
            assert (block.nan_count, block.all_zero) == (0, False)
            assert block.elements is not None
            assert block.elements.tolist() == [0] * shape[1]

    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 2**31), st.integers(1, 40), st.integers(1, 4), st.data())
    def test_one_flipped_bit_changes_its_row_alone(
        self, seed: int, rows: int, parts: int, data: st.DataObject
    ) -> None:
        """Of all digests exactly the one of the flipped bit's row and part differs."""
        tensor = values(rows, parts, 2, 5, dtype=torch.bfloat16, seed=seed)
        row, part = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, parts - 1))
        flipped = tensor.clone()
        flipped.view(torch.int16)[row, part, 1, 3] ^= 1 << data.draw(st.integers(0, 14))
        changed = digest_rows(tensor).digests != digest_rows(flipped).digests
        assert np.argwhere(changed).tolist() == [[row, part]]

    def test_keys_finalise_digests_and_elements(self) -> None:
        """A key changes what is stored, not what is equal nor the sketches."""
        tensor = values(4, 2, 8)
        plain, keyed = (
            digest_rows(tensor, elements=True),
            digest_rows(tensor, key=KEY, elements=True),
        )
        assert plain.elements is not None
        assert keyed.elements is not None
        assert keyed.digests.tolist() == finalise(plain.digests, KEY).tolist()
        assert keyed.elements.tolist() == finalise(plain.elements, KEY).tolist()
        np.testing.assert_array_equal(keyed.sketches, plain.sketches)


class TestTheTensorItself:
    """Looking at a tensor changes nothing about it or around it."""

    @pytest.mark.parametrize("dtype", FLOATS + COMPLEX + WHOLE, ids=str)
    @pytest.mark.parametrize("strided", [False, True])
    def test_it_stays_as_it_was(self, dtype: torch.dtype, strided: bool) -> None:
        """Bits, version counter and random state are the same afterwards."""
        tensor = values(5, 2, 3, 16, dtype=dtype)
        if strided:
            tensor = tensor.permute(3, 1, 2, 0)
        bits, version, state = raw(tensor).copy(), tensor._version, torch.get_rng_state()
        digest_rows(tensor, elements=True)
        digest_elements(tensor)
        np.testing.assert_array_equal(raw(tensor), bits)
        assert tensor._version == version
        assert torch.equal(torch.get_rng_state(), state)

    def test_it_stays_differentiable(self) -> None:
        """A backward pass runs through what was digested, and finds no node of ours."""
        leaf = values(3, 1, 4).requires_grad_()
        made = leaf * 2
        node = made.grad_fn
        digest_rows(made)
        assert made.grad_fn is node
        (gradient,) = torch.autograd.grad(made.sum(), leaf)
        assert torch.equal(gradient, torch.full_like(leaf, 2))

    def test_inference_tensors_are_digested(self) -> None:
        """Inside inference mode and outside of it."""
        with torch.inference_mode():
            tensor = values(3, 1, 4) * 2
            inside = digest_rows(tensor)
        assert_same(digest_rows(tensor), inside)

    def test_another_default_device_or_dtype_does_not_matter(self) -> None:
        """What a script sets for its own tensors is not for ours."""
        tensor, large = values(3, 1, 4, dtype=torch.bfloat16), values(*LARGE, dtype=torch.float16)
        expected, of_large = digest_rows(tensor), digest_rows(large)
        torch.set_default_dtype(torch.float64)
        try:
            with torch.device("meta"):
                assert_same(digest_rows(tensor), expected)
                assert_same(digest_rows(large), of_large)
        finally:
            torch.set_default_dtype(torch.float32)


class TestFacts:
    """NaN are counted, and zero means zero bits."""

    @pytest.mark.parametrize("dtype", FLOATS + COMPLEX, ids=str)
    @pytest.mark.parametrize("sketch", [True, False])
    @pytest.mark.parametrize("rows", [1, 4, 700])
    def test_nan_are_counted_exactly(self, dtype: torch.dtype, sketch: bool, rows: int) -> None:
        """Of either sign, in every floating dtype, with and without sketches."""
        tensor = values(rows, 1, 900, dtype=dtype)
        assert digest_rows(tensor, sketch=sketch).nan_count == 0
        tensor[0, 0, 3] = float("nan")
        tensor[rows - 1, 0, 899] = -float("nan")
        assert digest_rows(tensor, sketch=sketch).nan_count == 2

    @pytest.mark.parametrize("bits", [0x7F81, 0xFF81, 0x7FFF, -1])
    @pytest.mark.parametrize("sketch", [True, False])
    def test_every_nan_payload_counts(self, bits: int, sketch: bool) -> None:
        """Quiet or signalling, positive or negative."""
        tensor = values(2, 1, 8, dtype=torch.bfloat16)
        tensor.view(torch.int16)[1, 0, 2] = bits if bits < 0x8000 else bits - 0x10000
        assert digest_rows(tensor, sketch=sketch).nan_count == 1

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
    @pytest.mark.parametrize("sketch", [True, False])
    def test_infinities_and_overflow_are_no_nan(self, dtype: torch.dtype, sketch: bool) -> None:
        """Masked logits and huge values count as numbers, without a warning."""
        tensor = values(3, 1, 300, dtype=dtype)
        tensor[0, 0, 5], tensor[0, 0, 6] = float("inf"), -float("inf")
        tensor[1, 0, :] = torch.finfo(dtype).max
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert digest_rows(tensor, sketch=sketch).nan_count == 0

    @pytest.mark.parametrize("dtype", FLOATS + WHOLE, ids=str)
    def test_zero_means_that_no_bit_is_set(self, dtype: torch.dtype) -> None:
        """All rows count; one other element anywhere, or a -0.0, makes it not zero."""
        tensor = torch.zeros(4, 2, 8, dtype=dtype)
        block = digest_rows(tensor)
        assert block.all_zero
        assert set(block.digests.ravel().tolist()) == {zero_digest(block.dtype, (8,))}
        assert digest_rows(tensor, key=KEY).all_zero
        tensor[3, 1, 7] = 1
        assert not digest_rows(tensor).all_zero
        if dtype.is_floating_point and dtype.itemsize > 1:
            assert not digest_rows(-torch.zeros(4, 2, 8, dtype=dtype)).all_zero


class TestSketches:
    """Sketches are those of the values as float32."""

    @pytest.mark.parametrize("dtype", FLOATS + WHOLE, ids=str)
    @pytest.mark.parametrize("shape", [(3, 2, 40), (1, 1, 300), LARGE])
    def test_of_every_dtype(self, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        """Converted element by element, in blocks or at once."""
        tensor = values(*shape, dtype=dtype)
        rows, parts = shape[:2]
        expected = sketch_rows(tensor.float().reshape(rows * parts, -1).numpy())
        block = digest_rows(tensor)
        assert block.sketches is not None
        bound = 3e-7 * np.abs(expected[:, :1])
        assert (np.abs(block.sketches.reshape(-1, 5) - expected) <= bound).all()

    def test_of_complex_values(self) -> None:
        """As real and imaginary parts in turn."""
        tensor = values(2, 1, 20, dtype=torch.complex64) * (1 + 2j)
        expected = digest_rows(torch.view_as_real(tensor)).sketches
        np.testing.assert_array_equal(digest_rows(tensor).sketches, expected)

    def test_extreme_rows_of_a_large_tensor(self) -> None:
        """Rows beyond the squares of float32 keep their norm, among many others."""
        tensor = values(*LARGE)
        tensor[5, 1] *= 1e-25
        tensor[599, 0] *= 1e25
        block = digest_rows(tensor)
        assert block.sketches is not None
        norms = torch.linalg.vector_norm(tensor.double().flatten(2), dim=2)
        np.testing.assert_allclose(block.sketches[..., 0], norms, rtol=1e-6)

    def test_they_are_off_on_request(self) -> None:
        """Digests do not depend on it."""
        tensor = values(3, 1, 8)
        block = digest_rows(tensor, sketch=False)
        assert block.sketches is None
        assert block.digests.tolist() == digest_rows(tensor).digests.tolist()


class TestElements:
    """Order-free digests, one per part."""

    @pytest.mark.parametrize("dtype", FLOATS + COMPLEX + WHOLE, ids=str)
    def test_they_cover_all_rows_of_a_part(self, dtype: torch.dtype) -> None:
        """The sum over rows and elements; a complex element counts as its two parts."""
        tensor = values(5, 3, 2, 8, dtype=dtype)
        width = tensor.real.element_size()
        per_part = raw(tensor).transpose(1, 0, 2).reshape(3, -1)
        expected = element_digests(per_part.view(f"<u{width}"))
        block = digest_rows(tensor, elements=True)
        assert block.elements is not None
        assert block.elements.tolist() == expected.tolist()
        assert digest_elements(tensor).tolist() == expected.tolist()

    def test_they_add_up_over_chunks_and_ignore_order(self) -> None:
        """However rows are chunked or elements ordered, a head has one digest."""
        tensor = values(10, 2, 16, dtype=torch.bfloat16)
        whole = digest_elements(tensor)
        assert (
            digest_elements(tensor[:3]) + digest_elements(tensor[3:])
        ).tolist() == whole.tolist()
        assert digest_elements(tensor.flip(0, 2)).tolist() == whole.tolist()
        assert digest_elements(tensor.flip(1)).tolist() == whole[::-1].tolist()
