"""Sketches estimate how far apart two rows are."""

import warnings
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from xxhash import xxh3_64_intdigest

from layerdiff.sketch import FLOOR, WIDTH, distance, sketch_blocks, sketch_exactly, sketch_rows

Array = npt.NDArray[np.float64]
Differences = Callable[[np.random.Generator, Array], Array]

ROUNDING = 3e-7
"""Relative to the norm: what float32 sums of any order may differ by."""


def definition(row: npt.NDArray[np.float32]) -> Array:
    """The sketch of one row in float64, by the words of the module."""
    wide = row.astype(np.float64)
    sums = [0.0] * 4
    for i, value in enumerate(wide.tolist()):
        chunk, lane = divmod(i, 97)
        pairs = sum(bin(chunk)[2:][at : at + 2] == "11" for at in range(chunk.bit_length()))
        signs = xxh3_64_intdigest(lane.to_bytes(8, "little"))
        for k in range(4):
            sums[k] += (-1) ** pairs * (-1) ** (signs >> k & 1) * value
    return np.array([np.linalg.norm(wide), *sums])


def everywhere(random: np.random.Generator, rows: Array) -> Array:
    """Independent noise in every element."""
    return random.standard_normal(rows.shape)


def in_one_head(random: np.random.Generator, rows: Array) -> Array:
    """64 neighbouring elements, another head for each row."""
    difference = np.zeros_like(rows)
    for row, head in zip(
        difference, random.integers(0, rows.shape[1] // 64, len(rows)), strict=True
    ):
        row[64 * head : 64 * head + 64] = random.standard_normal(64)
    return difference


def in_one_element(random: np.random.Generator, rows: Array) -> Array:
    """A single element."""
    difference = np.zeros_like(rows)
    difference[np.arange(len(rows)), random.integers(0, rows.shape[1], len(rows))] = 1
    return difference


def in_one_channel(random: np.random.Generator, rows: Array) -> Array:
    """The same channel of every head of 64."""
    difference = np.zeros_like(rows)
    for row, channel in zip(difference, random.integers(0, 64, len(rows)), strict=True):
        row[channel::64] = random.standard_normal(len(row[channel::64]))
    return difference


def from_the_middle_on(random: np.random.Generator, rows: Array) -> Array:
    """The second half of each row."""
    difference = random.standard_normal(rows.shape)
    difference[:, : rows.shape[1] // 2] = 0
    return difference


def as_a_bias(random: np.random.Generator, rows: Array) -> Array:
    """The same amount added to every element."""
    return np.ones_like(rows)


def as_a_factor(random: np.random.Generator, rows: Array) -> Array:
    """The row itself, scaled."""
    return rows


def as_a_shift(random: np.random.Generator, rows: Array) -> Array:
    """Every element in its neighbour's place."""
    return np.roll(rows, 1, axis=1) - rows


def as_an_outer_product(random: np.random.Generator, rows: Array) -> Array:
    """A state that took in one token more: rank one."""
    side = int(rows.shape[1] ** 0.5)
    keys = random.standard_normal((len(rows), side, 1))
    difference = np.zeros_like(rows)
    outer = keys * random.standard_normal((len(rows), 1, side))
    difference[:, : side * side] = outer.reshape(len(rows), -1)
    return difference


EVERY_DIFFERENCE: list[Differences] = [
    everywhere,
    in_one_head,
    in_one_element,
    in_one_channel,
    from_the_middle_on,
    as_a_bias,
    as_a_factor,
    as_a_shift,
    as_an_outer_product,
]


def ratios(difference: Differences, width: int, count: int = 1000) -> Array:
    """Estimated over true distance of float32 pairs, true distances from 1e-7 to 1."""
    random = np.random.default_rng(7)
    x = random.standard_normal((count, width)) * np.exp(random.standard_normal(width) / 2)
    delta = difference(random, x)
    size = 10 ** random.uniform(-7, 0, count) * np.linalg.norm(x, axis=1)
    y = x + delta * (size / np.linalg.norm(delta, axis=1))[:, None]
    x32, y32 = x.astype(np.float32), y.astype(np.float32)
    error = np.linalg.norm(x32.astype(np.float64) - y32, axis=1)
    true = error / np.linalg.norm(x32.astype(np.float64), axis=1)
    estimate = distance(sketch_rows(x32), sketch_rows(y32))
    ratio: Array = estimate[true > 0] / true[true > 0]
    return ratio


class TestSketches:
    """A sketch is a norm and four projections on fixed signs."""

    @pytest.mark.parametrize("width", [1, 5, 96, 97, 98, 195, 640, 2048])
    def test_they_are_what_the_definition_says(self, width: int) -> None:
        """Equal to the definition, but for rounding, at every kind of width."""
        rows = np.random.default_rng(width).standard_normal((3, width)).astype(np.float32)
        for row, sketch in zip(rows, sketch_rows(rows), strict=True):
            expected = definition(row)
            np.testing.assert_allclose(sketch, expected, rtol=0, atol=ROUNDING * expected[0])

    def test_golden_vectors(self) -> None:
        """Constants of format 1: the signs are the same in every installation."""
        row = np.arange(1, 201, dtype=np.float32)[None]
        expected = [1639.1156, -500.0, 1092.0, -1344.0, -2652.0]
        np.testing.assert_allclose(sketch_rows(row)[0], expected, rtol=1e-6)
        at_96_to_98 = sketch_rows(np.eye(3, 200, 96, dtype=np.float32))[:, 1:]
        assert at_96_to_98.tolist() == [[-1, 1, 1, 1], [-1, 1, 1, -1], [1, -1, -1, -1]]
        chunks = sketch_rows(np.eye(776, dtype=np.float32)[::97])[:, 2]
        assert chunks.tolist() == [1, 1, 1, -1, 1, 1, -1, 1]

    @pytest.mark.parametrize("width", [3, 97, 300, 2048, 20000])
    @pytest.mark.parametrize("batch", [2, 7, 64])
    def test_a_row_does_not_depend_on_its_batch(self, width: int, batch: int) -> None:
        """Alone, among others or in another block, a row has the same sketch."""
        rows = np.random.default_rng(0).standard_normal((batch, width)).astype(np.float32)
        together = sketch_rows(rows)
        blocks, _ = sketch_blocks([rows[:1], rows[1:]], batch)
        alone = np.concatenate([sketch_rows(row[None]) for row in rows])
        bound = ROUNDING * together[:, :1]
        assert (np.abs(together - alone) <= bound).all()
        assert (np.abs(together - blocks) <= bound).all()

    def test_no_elements_and_no_rows(self) -> None:
        """A row without elements is zero; no rows have no sketches."""
        assert sketch_rows(np.zeros((2, 0), np.float32)).tolist() == [[0.0] * WIDTH] * 2
        assert sketch_rows(np.zeros((0, 7), np.float32)).shape == (0, WIDTH)

    @pytest.mark.parametrize("scale", [1e-42, 1e-25, 1e25, 1e37])
    @pytest.mark.parametrize("count", [1, 3])
    def test_extreme_values_keep_their_norm(self, scale: float, count: int) -> None:
        """Squares beyond float32 do not turn a small row into zero, or a large one infinite."""
        rows = (np.random.default_rng(1).random((count, 300)) * scale).astype(np.float32)
        expected = np.linalg.norm(rows.astype(np.float64), axis=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sketches = sketch_rows(rows)
        np.testing.assert_allclose(sketches[:, 0], expected, rtol=1e-6, atol=1e-44)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("count", [1, 3])
    def test_a_row_that_is_not_finite_has_no_finite_norm(self, value: float, count: int) -> None:
        """NaN and infinities show in the norm, quietly, and only in their own row."""
        rows = np.ones((count, 200), np.float32)
        rows[0, 150] = value
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sketches = sketch_rows(rows)
        assert not np.isfinite(sketches[0, 0])
        np.testing.assert_array_equal(
            sketches[1:], sketch_rows(np.ones((count - 1, 200), np.float32))
        )

    def test_by_way_of_float64_is_the_same_to_rounding(self) -> None:
        """Both ways sum the same signs."""
        rows = np.random.default_rng(2).standard_normal((4, 1000)).astype(np.float32)
        difference = np.abs(sketch_exactly(rows) - sketch_rows(rows))
        assert (difference <= ROUNDING * sketch_rows(rows)[:, :1]).all()


class TestDistance:
    """The relative distance of two rows, from their sketches alone."""

    @pytest.mark.parametrize("width", [320, 2048])
    @pytest.mark.parametrize("difference", EVERY_DIFFERENCE)
    def test_it_is_within_a_factor_of_two(self, difference: Differences, width: int) -> None:
        """For at least 9 of 10 pairs from 1e-7 to 1, wherever in the row the difference sits."""
        ratio = ratios(difference, width)
        assert ((ratio >= 0.5) & (ratio <= 2)).mean() >= 0.9
        assert np.quantile(ratio, 0.99) < 4

    @pytest.mark.parametrize("width", [64, 2048, 16384])
    def test_a_relative_change_of_a_millionth_shows(self, width: int) -> None:
        """1e-6 of a float32 row stands out from rounding."""
        random = np.random.default_rng(3)
        x = random.standard_normal((200, width))
        y = x + 1e-6 * random.standard_normal(x.shape)
        estimate = distance(sketch_rows(x.astype(np.float32)), sketch_rows(y.astype(np.float32)))
        assert (estimate > FLOOR).mean() >= 0.95

    def test_differences_below_the_floor_stay_below(self) -> None:
        """What is only rounding of the sketch does not look like a difference."""
        random = np.random.default_rng(4)
        x = random.standard_normal((500, 2048)).astype(np.float32)
        y = x.copy()
        y[:, 5] = np.nextafter(y[:, 5], np.float32(9))
        assert (distance(sketch_rows(x), sketch_rows(y)) <= FLOOR).all()

    def test_equal_sketches_are_at_no_distance(self) -> None:
        """Also when they are zero or not finite."""
        rows = np.array([[0, 0], [1, 2], [np.nan, 1], [np.inf, 1]], np.float32)
        sketches = sketch_rows(rows)
        assert distance(sketches, sketches).tolist() == [0.0] * 4

    def test_zero_and_values_that_are_not_finite(self) -> None:
        """Against zero or across infinities a distance is infinite; between two it is unknown."""
        zero, one, nan, inf = sketch_rows(np.array([[0], [1], [np.nan], [np.inf]], np.float32))
        assert distance(zero, one) == np.inf
        assert distance(one, zero) == 1
        assert distance(one, nan) == distance(inf, one) == np.inf
        assert np.isnan(distance(nan, inf))

    def test_it_takes_arrays_of_any_shape(self) -> None:
        """Rows and parts keep their axes."""
        rows = np.random.default_rng(5).standard_normal((6, 50)).astype(np.float32)
        sketches = sketch_rows(rows).reshape(2, 3, WIDTH)
        assert distance(sketches, sketches[::-1]).shape == (2, 3)

    def test_a_scaled_row_is_no_nearer_than_its_norms(self) -> None:
        """The norms alone bound the distance from below and above."""
        row = np.random.default_rng(6).standard_normal((1, 500)).astype(np.float32)
        near, far = distance(sketch_rows(row), sketch_rows(row * 3)), 2.0
        assert near >= far * (1 - 1e-6)
        assert distance(sketch_rows(row), sketch_rows(-row)) <= 2.0
