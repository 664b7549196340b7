"""What digests tell apart, and golden vectors that an engine in another language can check."""

import hashlib
import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from layerdiff.digest import (
    CHAIN_START,
    Digests,
    chain_tokens,
    derive_key,
    element_digests,
    finalise,
    item_bytes,
    multiset_digest,
    root_digest,
    row_digests,
    zero_digest,
)

KEY = derive_key(b"secret\n")
MASK = 2**64 - 1
ROW = np.array([1.0, -2.0, 0.5, 3.0], np.float32)

rows_of_halves = st.lists(
    st.lists(st.integers(0, 0xFFFF), min_size=8, max_size=8), min_size=1, max_size=6
).map(lambda rows: np.array(rows, np.uint16))


def digest(values: np.ndarray, dtype: str = "float32", key: bytes | None = None) -> int:
    """The digest of one row, by our code."""
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(1, -1)
    return int(row_digests(raw, dtype, values.shape, key)[0])


def reference(raw: bytes, dtype: str, shape: str) -> int:
    """The digest of one row, by the words of the format."""
    return xxh3_64_intdigest(raw) ^ xxh3_64_intdigest(f"{dtype}:{shape}".encode())


def mix64(value: int) -> int:
    """SplitMix64's output for a state, by its published words."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


class TestGoldenVectors:
    """Constants of format 1: a change here is another format."""

    @pytest.mark.parametrize(
        ("raw", "dtype", "shape", "expected"),
        [
            (struct.pack("<4f", 1.0, -2.0, 0.5, 3.0), "float32", (4,), 0x20613592C31C5C57),
            (struct.pack("<4f", 1.0, -2.0, 0.5, 3.0), "float32", (2, 2), 0xB74FD6E44CC4D2C2),
            (bytes(range(64)), "bfloat16", (2, 16), 0x8B18F9DF8472A640),
            (b"\x01", "bool", (), 0x682994651D33BCCA),
            (b"", "float32", (0,), 0x73A9A59A4A265793),
        ],
    )
    def test_a_row(self, raw: bytes, dtype: str, shape: tuple[int, ...], expected: int) -> None:
        """XXH3 of the bytes XOR XXH3 of dtype and shape, however many rows come along."""
        once = np.frombuffer(raw, np.uint8).reshape(1, -1)
        assert row_digests(once, dtype, shape).tolist() == [expected]
        assert row_digests(np.repeat(once, 3, axis=0), dtype, shape).tolist() == [expected] * 3
        assert reference(raw, dtype, ",".join(map(str, shape))) == expected

    def test_a_keyed_row(self) -> None:
        """The key is BLAKE2b of the file, and the digest BLAKE2b under it."""
        assert KEY.hex() == "b9ca583848263ecd9231b1e41791d9a871bee6e2b90677a7450bda11fc786ce0"
        assert digest(ROW, key=KEY) == 0x27F758850EEBB246

    def test_a_zero_row(self) -> None:
        """The digest of a row of zero bits is known without one."""
        assert zero_digest("bfloat16", (2, 16)) == 0xC5647B57CCEE6E7B

    def test_a_root(self) -> None:
        """XXH3 of the digests, little-endian, in order."""
        assert root_digest(np.array([1, 2, 3], np.uint64)) == 0x7C68B4906E7EA780

    def test_a_chain(self) -> None:
        """Each token's digest takes in the one before."""
        assert CHAIN_START == 0xB09DE89D94261241
        expected = [0x08FA0FAE7F0DF04B, 0x4C713A06C396FF10, 0x4CA29094F82F5EB3]
        assert chain_tokens(CHAIN_START, [5, 0, 151935]).tolist() == expected

    def test_elements(self) -> None:
        """mix64 of zero is SplitMix64's first output; 2 and 4 byte elements are zero-extended."""
        assert element_digests(np.zeros((1, 1), np.uint16)).tolist() == [0xE220A8397B1DCDAF]
        halves = np.array([[0, 1, 0x3F80]], np.uint16)
        words = np.array([[0x3F800000, 0x80000000]], np.uint32)
        assert element_digests(halves).tolist() == [0xEF84E460D064F54D]
        assert element_digests(words).tolist() == [0x22B296E1A30185A1]


class TestRows:
    """A row's digest changes with every bit, place, dtype and shape."""

    @given(st.binary(min_size=1, max_size=600), st.data())
    def test_one_flipped_bit_is_seen(self, raw: bytes, data: st.DataObject) -> None:
        """Any bit of any row, through every length that XXH3 treats in its own way."""
        at = data.draw(st.integers(0, 8 * len(raw) - 1))
        flipped = bytearray(raw)
        flipped[at // 8] ^= 1 << at % 8
        rows = np.stack([np.frombuffer(raw, np.uint8), np.frombuffer(bytes(flipped), np.uint8)])
        first, second = row_digests(rows, "uint8", (len(raw),)).tolist()
        assert first != second
        assert first == reference(raw, "uint8", str(len(raw)))

    @given(st.permutations(range(16)))
    def test_elements_in_another_order_are_seen(self, order: list[int]) -> None:
        """Swapped elements, heads or a roll: only the same order gives the same digest."""
        values = np.arange(16, dtype=np.float32)
        assert (digest(values) == digest(values[order])) == (order == sorted(order))

    @pytest.mark.parametrize(
        "change",
        [
            lambda row: np.array([0.0, *row[1:]], np.float32),
            lambda row: -row,
            lambda row: row * np.array([-1, 1, -1, 1], np.float32),
            lambda row: row + np.array([0, 0, 0.5, -0.5], np.float32),
            lambda row: np.nextafter(row, np.float32(9)),
        ],
        ids=["zeroed", "negated", "two signs", "moved weight", "one ulp"],
    )
    def test_changes_that_sums_miss_are_seen(
        self, change: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        """Faults that cancel in a sum do not cancel here."""
        assert digest(change(ROW)) != digest(ROW)

    def test_minus_zero_is_not_zero(self) -> None:
        """Bits are hashed: 0.0 and -0.0 differ, so a row of -0.0 is no zero row."""
        assert digest(np.zeros(4, np.float32)) == zero_digest("float32", (4,))
        assert digest(-np.zeros(4, np.float32)) != zero_digest("float32", (4,))

    def test_nan_payloads_differ(self) -> None:
        """Two NaN of other bits are other values."""
        payloads = np.array([0x7FC00000, 0x7FC00001, 0xFFC00000], np.uint32)
        assert len({digest(payloads[i : i + 1]) for i in range(3)}) == 3

    def test_dtype_and_shape_are_part_of_the_digest(self) -> None:
        """The same bytes under another dtype, shape or axis order are another row."""
        raw = np.arange(64, dtype=np.uint8).reshape(1, 64)
        kinds = [("bfloat16", (32,)), ("float16", (32,)), ("float16", (2, 16))]
        kinds += [("float16", (16, 2)), ("float16", (1, 32)), ("uint8", (64,)), ("int8", (64,))]
        assert len({int(row_digests(raw, dtype, shape)[0]) for dtype, shape in kinds}) == len(
            kinds
        )

    def test_words_of_any_width_give_the_digest_of_their_bytes(self) -> None:
        """Rows may come as the integers that share their memory."""
        raw = np.arange(64, dtype=np.uint8).reshape(2, 32)
        expected = row_digests(raw, "float32", (8,)).tolist()
        for word in (np.int16, np.uint32, np.int64):
            assert row_digests(raw.view(word), "float32", (8,)).tolist() == expected

    def test_no_rows_have_no_digests(self) -> None:
        """An empty observation is a valid one."""
        assert row_digests(np.zeros((0, 8), np.uint8), "float32", (2,)).shape == (0,)
        assert root_digest(np.zeros((0, 1), np.uint64)) == xxh3_64_intdigest(b"")


class TestSetsOfRows:
    """The root sees the order of rows, the multiset does not."""

    @given(rows_of_halves, st.integers(0, 2**32 - 1))
    def test_permuted_rows(self, rows: Digests, seed: int) -> None:
        """Rows in another order: another root, the same multiset digest."""
        order = np.random.default_rng(seed).permutation(len(rows))
        digests = row_digests(rows, "bfloat16", (8,))
        same_order = (digests[order] == digests).all()
        assert (root_digest(digests[order]) == root_digest(digests)) == same_order
        assert multiset_digest(digests[order]) == multiset_digest(digests)

    def test_multisets_add_up(self) -> None:
        """The digest of all rows is the sum of those of any chunks, mod 2**64."""
        digests = np.array([MASK, 5, 7, MASK - 3], np.uint64)
        parts = multiset_digest(digests[:1]) + multiset_digest(digests[1:])
        assert multiset_digest(digests) == parts & MASK

    def test_a_root_does_not_depend_on_memory_order(self) -> None:
        """Rows then parts, whatever the strides."""
        digests = np.arange(6, dtype=np.uint64).reshape(2, 3)
        assert root_digest(np.asfortranarray(digests)) == root_digest(digests)


class TestElements:
    """The order-free digest sees every element and no order."""

    @pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
    @pytest.mark.parametrize("shape", [(3, 40), (1, 40000), (700, 60), (2, 16385)])
    def test_it_is_the_sum_of_mixed_bits(
        self, dtype: type[np.unsignedinteger], shape: tuple[int, int]
    ) -> None:
        """Equal to the definition, for every width and blocking."""
        top = int(np.iinfo(dtype).max)
        bits = np.random.default_rng(0).integers(0, top, shape, dtype, endpoint=True)
        expected = [sum(map(mix64, part[:99].tolist())) & MASK for part in bits[:3]]
        assert element_digests(bits[:3, :99]).tolist() == expected
        halves = element_digests(bits[:, ::2]) + element_digests(bits[:, 1::2])
        assert element_digests(bits).tolist() == halves.tolist()

    @settings(max_examples=50)
    @given(rows_of_halves, st.integers(0, 2**32 - 1))
    def test_order_is_free_and_bits_are_not(self, bits: Digests, seed: int) -> None:
        """Shuffled elements agree; one changed element does not."""
        random = np.random.default_rng(seed)
        shuffled = random.permuted(bits, axis=1)
        assert element_digests(shuffled).tolist() == element_digests(bits).tolist()
        changed = bits.copy()
        changed[0, random.integers(8)] ^= 1 << random.integers(16)
        assert element_digests(changed)[0] != element_digests(bits)[0]

    def test_zeros_count(self) -> None:
        """One zero more is another set of elements; none at all sums to 0."""
        sums = {int(element_digests(np.zeros((1, n), np.uint16))[0]) for n in range(5)}
        assert len(sums) == 5
        assert 0 in sums


class TestKeys:
    """A key hides what digests stand for and keeps their equality."""

    def test_finalised_digests_are_blake2b(self) -> None:
        """One keyed hash of the 8 bytes for each, in any shape."""
        digests = np.array([[0, 1], [MASK, 12345]], np.uint64)
        expected = [
            hashlib.blake2b(struct.pack("<Q", value), digest_size=8, key=KEY).digest()
            for value in digests.ravel().tolist()
        ]
        assert finalise(digests, KEY).astype("<u8").tobytes() == b"".join(expected)
        assert finalise(digests, KEY).shape == (2, 2)

    @given(rows_of_halves)
    def test_equal_rows_stay_equal_and_others_apart(self, rows: Digests) -> None:
        """Under a key the same pairs of rows agree, with other digests."""
        plain = row_digests(rows, "bfloat16", (8,))
        keyed = row_digests(rows, "bfloat16", (8,), KEY)
        np.testing.assert_array_equal(plain[:, None] == plain, keyed[:, None] == keyed)
        assert not (plain == keyed).any()
        other = row_digests(rows, "bfloat16", (8,), derive_key(b"other"))
        assert not (other == keyed).any()

    def test_without_a_key_nothing_changes(self) -> None:
        """Unkeyed dumps hold the digests themselves."""
        digests = np.arange(3, dtype=np.uint64)
        assert finalise(digests, None).tolist() == [0, 1, 2]


class TestChains:
    """A token's chain digest stands for its whole prefix."""

    @given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20), st.integers(0, 20))
    def test_chunks_continue_a_chain(self, tokens: list[int], cut: int) -> None:
        """However a prompt is cut into passes, its positions get the same digests."""
        head = chain_tokens(CHAIN_START, tokens[:cut])
        before = int(head[-1]) if len(head) else CHAIN_START
        whole = head.tolist() + chain_tokens(before, tokens[cut:]).tolist()
        assert whole == chain_tokens(CHAIN_START, tokens).tolist()
        chain = CHAIN_START
        for token, value in zip(tokens, whole, strict=True):
            chain = xxh3_64_intdigest(struct.pack("<Qq", chain, token))
            assert value == chain

    def test_an_earlier_token_changes_all_that_follow(self) -> None:
        """Equal tokens after another first one do not pair."""
        first, second = chain_tokens(CHAIN_START, [1, 2, 3]), chain_tokens(CHAIN_START, [9, 2, 3])
        assert not (first == second).any()


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("bool", 1), ("float8_e4m3fn", 1), ("bfloat16", 2), ("int32", 4), ("complex128", 16)],
)
def test_the_width_of_an_element_is_in_the_name_of_its_dtype(dtype: str, expected: int) -> None:
    """Torch's names say how many bits there are."""
    assert item_bytes(dtype) == expected


@pytest.mark.parametrize("dtype", ["", "float", "float4", "quint4x2"])
def test_a_dtype_without_whole_bytes_is_refused(dtype: str) -> None:
    """A guess would make a wrong zero digest."""
    with pytest.raises(ValueError, match="whole number of bytes"):
        item_bytes(dtype)
