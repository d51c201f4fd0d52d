"""Several vectors measured together for one ρ: what each costs, and how they share it.

A part is a vector of whole numbers with one entry per group, such as the groups' rows. A block holds the
parts that one row moves in ways that exclude each other: a row has a value in a column or has none.

The shares of ρ minimise the product of the variances of the requested aggregates. A change of units does
not change them. The search follows the gradient of Σ log V in multiplicative steps, as in optimal
experimental design (Titterington 1976). It uses public quantities only. Proofs:
docs/proofs/shared-measurement.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from dpxplain.errors import InternalError
from dpxplain.model.process import cached_property
from dpxplain.model.release import FloatArray
from dpxplain.privacy.calibration import gaussian_scale, rounded_up
from dpxplain.privacy.sensitivity import Neighbours

PartKind = Literal["rows", "values", "nulls", "centred", "total", "squares", "persons", "bins"]
Move = tuple[float, ...]

_LESS = 1.0 - 2.0**-52


@dataclass(frozen=True)
class MeasuredPart:
    """One vector; `reach` is the most that one row adds to it, in whole units of size `unit`.

    For persons it is the most that one privacy unit adds, in Euclidean length, however many rows it has.
    """

    kind: PartKind
    column: str | None
    reach: float
    share: float  # of ρ
    unit: float = 1.0

    @property
    def name(self) -> str:
        """Tells the parts of one measurement apart; stored with releases.

        >>> MeasuredPart("values", "pay", 1, 0.5).name
        'values pay'
        """
        return self.kind if self.column is None else f"{self.kind} {self.column}"


@dataclass(frozen=True)
class MeasuredBlock:
    """Parts, what one row can add to them, and by how much two rows of one group can differ in them.

    A move has one entry per part, as a multiple of the part's reach.
    """

    parts: tuple[MeasuredPart, ...]
    added: tuple[Move, ...]
    replaced: tuple[Move, ...]


def persons_block(unit: str, groups: int, share: float) -> MeasuredBlock:
    """The privacy units with a row in each group: one unit adds 1 to each of at most `groups` groups.

    Replacing a unit removes at most `groups` ones and adds at most as many.
    """
    reach = rounded_up(math.sqrt(groups))
    return MeasuredBlock((MeasuredPart("persons", unit, reach, share),), ((1.0,),), ((math.sqrt(2),),))


def bins_block(column: str, share: float) -> MeasuredBlock:
    """The groups' values by bin: a row adds 1 to one entry, and its replacement may be in another bin."""
    return MeasuredBlock((MeasuredPart("bins", column, 1, share),), ((1.0,),), ((math.sqrt(2),),))


def rows_block(share: float) -> MeasuredBlock:
    """The groups' rows: every row adds 1; replacing a row by one of its own group changes nothing."""
    return MeasuredBlock((MeasuredPart("rows", None, 1, share),), ((1.0,),), ((0.0,),))


def total_block(column: str, low: int, high: int, unit: float, share: float) -> MeasuredBlock:
    """The sums of a column with values in [low, high], not centred; a row without a value adds nothing."""
    largest = max(abs(low), abs(high))
    apart = max(largest, high - low) / largest
    return MeasuredBlock((MeasuredPart("total", column, largest, share, unit),), ((1.0,),), ((apart,),))


def values_block(column: str, share: float, *, counts_nulls: bool) -> MeasuredBlock:
    """The rows with a value in the column and, with `counts_nulls`, those without.

    A row is in one of the two counts, so both together cost as much as one.
    """
    return _with_nulls((MeasuredPart("values", column, 1, share),), (), counts_nulls=counts_nulls)


def centred_block(
    column: str, low: int, high: int, unit: float, count_share: float, sum_share: float, *, counts_nulls: bool
) -> MeasuredBlock:
    """The rows with a value in the column, and their centred and doubled sum Σ(2x − low − high).

    With `counts_nulls`, also the rows without one.
    """
    values = MeasuredPart("values", column, 1, count_share)
    centred = MeasuredPart("centred", column, high - low, sum_share, unit / 2)
    return _with_nulls((values, centred), ((0.0, 2.0),), counts_nulls=counts_nulls)


def squares_block(
    centred: MeasuredBlock, column: str, reach: int, unit: float, share: float
) -> MeasuredBlock:
    """A centred block, and the centred squares Σ(2z² − reach) of its values z, which lie in [−reach, reach].

    Replacing a value within a group moves sum and squares by at most twice their reach, but never both that
    far at once.
    """
    values, total, *missing = centred.parts
    squares = MeasuredPart("squares", column, reach, share, unit)
    return _with_nulls((values, total, squares), ((0.0, 2.0, 2.0),), counts_nulls=bool(missing))


def _with_nulls(
    parts: tuple[MeasuredPart, ...], replaced: tuple[Move, ...], *, counts_nulls: bool
) -> MeasuredBlock:
    """A block whose parts a row with a value moves by their reach; rows without one are counted for free.

    `replaced` lists further moves between two rows of one group that both have a value.
    """
    value = (1.0,) * len(parts)
    if not counts_nulls:
        return MeasuredBlock(parts, (value,), (*replaced, value))
    missing = MeasuredPart("nulls", parts[0].column, 1, sum(part.share for part in parts))
    added = (*value, 0.0), (*(0.0 for _ in parts), 1.0)
    return MeasuredBlock((*parts, missing), added, (*((*move, 0.0) for move in replaced), (*value, 1.0)))


@dataclass(frozen=True)
class Measurement:
    """One Gaussian measurement of all parts, for exactly `rho` (docs/proofs/shared-measurement.md).

    Every part gets independent noise of its own scale. The cost is the largest, over neighbouring tables, of
    Σ distance²/(2·scale²), not the sum of what each part would cost by itself.
    """

    blocks: tuple[MeasuredBlock, ...]
    rho: float
    rows: int = 1  # the most that one privacy unit has
    neighbours: Neighbours = "unbounded"

    @property
    def parts(self) -> tuple[MeasuredPart, ...]:
        return tuple(part for block in self.blocks for part in block.parts)

    @cached_property
    def rhos(self) -> Mapping[str, float]:
        """The cost of each part's noise for a distance of reach × rows; at worst they cost ρ together."""
        if len({part.name for part in self.parts}) < len(self.parts):
            raise InternalError("Two parts of a measurement have the same name.")
        worst = float(self._cost({part.name: part.share for part in self.parts}))
        rhos = {part.name: self.rho * (part.share / worst) for part in self.parts}
        while self._cost(rhos) > Fraction(self.rho):
            rhos = {name: rho * _LESS for name, rho in rhos.items()}
        return rhos

    def scale(self, part: MeasuredPart) -> float:
        """σ of the part's noise, in whole units."""
        return gaussian_scale(self.sensitivity(part), self.rhos[part.name])

    def sensitivity(self, part: MeasuredPart) -> float:
        """The most that one unit's rows add to the part, in Euclidean length."""
        return float(part.reach * (1 if part.kind == "persons" else self.rows))

    def check(self) -> None:
        """Raises unless the measurement costs ρ: never more, and at most a billionth less."""
        if not Fraction(self.rho) * (1 - Fraction(1, 10**9)) <= self._cost(self.rhos) <= Fraction(self.rho):
            raise InternalError("The parts of a measurement do not add up to its planned cost.")

    def _cost(self, rhos: Mapping[str, float]) -> Fraction:
        """The cost for the worst pair of neighbours; `rhos` says what moving each part by its reach costs.

        Every block's worst moves can happen in one row. Replacing a row by one of another group removes the
        first and adds the second, in different entries: twice the cost of adding.
        """
        added = sum((_worst(block, block.added, rhos) for block in self.blocks), Fraction(0))
        if self.neighbours == "unbounded":
            return added
        replaced = sum((_worst(block, block.replaced, rhos) for block in self.blocks), Fraction(0))
        return max(2 * added, replaced)


def _worst(block: MeasuredBlock, moves: Sequence[Move], rhos: Mapping[str, float]) -> Fraction:
    """The cost of the worst move, in exact fractions: it grows with the square of the distance."""
    return max(
        sum(
            (
                Fraction(rhos[part.name]) * Fraction(distance) ** 2
                for part, distance in zip(block.parts, move, strict=True)
            ),
            Fraction(0),
        )
        for move in moves
    )


@dataclass(frozen=True)
class CountPrecision:
    """The precisions (1/σ²) of a count of rows and, per column, of a count of values and one of NULLs.

    The precision matrix of the unknown counts (rows, then the columns' values) is an arrow: its first row,
    its first column and its diagonal. Its inverse has a closed form that subtracts no close numbers:
    covariance(i, j) = δ(i, j)/d(i) + r(i)·r(j)·V, with d = values + nulls, r = nulls/d (1 for the rows) and
    V the variance of the rows.
    """

    rows: float
    values: FloatArray
    nulls: FloatArray

    @cached_property
    def rows_variance(self) -> float:
        return 1.0 / float(self.rows + np.sum(self.nulls * self.values / self._diagonal))

    @cached_property
    def variances(self) -> FloatArray:
        """The variances of the columns' counts of values."""
        return np.asarray(1.0 / self._diagonal + self._ratios**2 * self.rows_variance)

    def weights(self, column: int | None) -> tuple[float, FloatArray, FloatArray]:
        """Weights of the best linear unbiased estimate of the rows (None) or of a column's values.

        They apply to the measured rows, the columns' values and their NULLs.
        """
        rows = self.rows_variance * (1.0 if column is None else float(self._ratios[column]))
        values, nulls = self._ratios * rows, self.values / self._diagonal * rows
        if column is not None:
            values[column] += 1.0 / self._diagonal[column]
            nulls[column] -= 1.0 / self._diagonal[column]
        return rows * self.rows, values * self.values, nulls * self.nulls

    def slopes(self, rows: float, columns: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """−∂/∂precision of a weighted sum of the variances of rows and columns.

        For the precisions of the rows, the columns' values and their NULLs: the weighted sums of the
        squares covariance(i, ·)² and (covariance(rows, ·) − covariance(i, ·))².
        """
        ratios, rest, variance = self._ratios, self.values / self._diagonal, self.rows_variance
        together = variance**2 * (rows + float(np.sum(columns * ratios**2)))
        own, cross = columns / self._diagonal**2, 2.0 * columns * ratios * variance / self._diagonal
        return together, own + cross * ratios + together * ratios**2, own - cross * rest + together * rest**2

    @cached_property
    def _diagonal(self) -> FloatArray:
        return self.values + self.nulls

    @cached_property
    def _ratios(self) -> FloatArray:
        return np.asarray(self.nulls / self._diagonal)


_STEPS = 400  # of the search, at most
_GRAINS = 1000  # shares are whole thousandths, so that rounding on another machine does not change them
_PARTS = 50  # more parts share finer grains: twice as fine up to 100 parts, three times up to 150 ...
_CONVERGED = 1e-15  # relative change of all shares in a step
_LEAST = 10  # the fewest grains of a measured part


@dataclass(frozen=True)
class AskedColumn:
    """A column's aggregates as the objective sees them, in units of half the range of its bounds.

    `offsets` has, for each SUM and AVG, the squared distance from the middle of the bounds to the point that
    its sum is taken from: an error of one row in the count moves the result that far.
    """

    is_counted: bool  # COUNT(column) is asked
    offsets: tuple[float, ...]
    is_direct: bool = False  # only a SUM is asked, which needs no count
    is_squared: bool = False  # a variance or standard deviation is asked


@dataclass(frozen=True)
class RhoShares:
    """Shares of ρ, adding up to 1: for the rows, and for each column's count, centred sum and squares."""

    rows: float
    counts: tuple[float, ...]
    sums: tuple[float, ...]
    squares: tuple[float, ...]


@lru_cache(maxsize=256)
def allocate(columns: tuple[AskedColumn, ...], *, counts_rows: bool) -> RhoShares:
    """The shares of ρ; `counts_rows` says whether COUNT(*) is asked.

    >>> allocate((AskedColumn(is_counted=False, offsets=(1.0,)),), counts_rows=False)  # halves
    RhoShares(rows=0.0, counts=(0.5,), sums=(0.5,), squares=(0.0,))
    >>> allocate((AskedColumn(is_counted=False, offsets=(0.25,)),), counts_rows=True)
    RhoShares(rows=0.45, counts=(0.123,), sums=(0.427,), squares=(0.0,))
    """
    design = _Design(columns, counts_rows)
    shares = design.start()
    for _ in range(_STEPS):
        step = np.sqrt(design.gains(shares))
        shares = shares * step
        shares = shares / shares.sum()
        if np.all((np.abs(step - 1.0) < _CONVERGED) | (shares == 0.0)):
            break
    return design.named(_in_grains(shares))


def _in_grains(shares: FloatArray) -> FloatArray:
    """The shares in whole grains; a share above 0 gets at least `_LEAST`.

    If rounding leaves grains over, the largest shares get one each. If it gives out too many, the largest
    share of the moment loses one, again and again. So equal shares differ by at most one grain, as with the
    largest-remainder method, and the last digits of a machine's fractions are never compared.
    """
    used = shares > 0.0
    grains = _GRAINS * math.ceil(np.count_nonzero(used) / _PARTS)
    whole = np.where(used, np.maximum(np.rint(shares * grains), _LEAST), 0.0)
    left = round(grains - whole.sum())
    whole[np.argsort(-whole, kind="stable")[: max(0, left)]] += 1.0
    for _ in range(-left):
        whole[np.argmax(whole)] -= 1.0
    if whole.sum() != grains or not np.all(whole[used] >= 1.0):
        raise InternalError("The shares of a measurement do not add up to 1.")
    return np.asarray(whole / grains)


def _product(factor: FloatArray, other: FloatArray) -> FloatArray:
    """The product, 0 where the factor is 0 even if the other is infinite."""
    return np.asarray(np.multiply(factor, other, out=np.zeros_like(factor), where=factor > 0.0))


class _Design:
    """The variances as functions of the shares, ordered: the rows, all counts, all sums, all squares."""

    def __init__(self, columns: Sequence[AskedColumn], counts_rows: bool) -> None:
        self.columns = columns
        self.counts_rows = counts_rows
        self.size = len(columns)
        self.counted = np.array([column.is_counted for column in columns], dtype=bool)
        self.squared = np.array([column.is_squared for column in columns], dtype=bool)
        # The first SUM or AVG of every column, then the second: their offsets, and which columns have one.
        offsets = itertools.zip_longest(*(column.offsets for column in columns), fillvalue=math.nan)
        self.sums = [(np.nan_to_num(each), ~np.isnan(each)) for each in map(np.array, offsets)]
        number_of_sums = sum(len(column.offsets) for column in columns)
        self.aggregates = counts_rows + number_of_sums + int(self.counted.sum() + self.squared.sum())

    def start(self) -> FloatArray:
        """Equal shares for every part that is needed."""
        counts = [0.0 if column.is_direct else 1.0 for column in self.columns]
        sums = [1.0 if column.offsets or column.is_squared else 0.0 for column in self.columns]
        squares = [1.0 if column.is_squared else 0.0 for column in self.columns]
        shares = np.array([float(self.counts_rows), *counts, *sums, *squares])
        return np.asarray(shares / shares.sum())

    def gains(self, shares: FloatArray) -> FloatArray:
        """−∂/∂share of the mean log variance; at the optimum 1 wherever the share is not 0.

        An aggregate's variance contains the variance of an estimated count, so its slope is a multiple of
        that count's slope, plus what its own sum and squares contribute.
        """
        _, sums, squares = shares[1:].reshape(3, self.size)
        precision = self._precision(shares)
        with np.errstate(divide="ignore"):
            sum_variance, square_variance = 1.0 / sums, 0.25 / squares
        variances = precision.variances
        weights, own = self.counted / variances, np.zeros((3, self.size))
        for offset, is_asked in self.sums:
            inverse = np.where(is_asked, 1.0 / (sum_variance + offset * variances), 0.0)
            weights += offset * inverse
            own[1] += _product(inverse, sum_variance**2)
        inverse = np.where(self.squared, 1.0 / (sum_variance + square_variance + 0.25 * variances), 0.0)
        weights += 0.25 * inverse
        own[1] += _product(inverse, sum_variance**2)
        own[2] += _product(inverse, 4.0 * square_variance**2)
        rows_weight = 1.0 / precision.rows_variance if self.counts_rows else 0.0
        rows, values, nulls = precision.slopes(rows_weight, weights)
        own[0] += values
        own += nulls * self.counts_rows
        slope = np.concatenate([[rows], own.ravel()])
        return np.where(shares > 0.0, slope / self.aggregates, 0.0)

    def _precision(self, shares: FloatArray) -> CountPrecision:
        """Precisions up to the common factor 2ρ.

        The count of NULLs (rows minus values) is as precise as if it had the shares of count, sum and
        squares.
        """
        counts, sums, squares = shares[1:].reshape(3, self.size)
        values = np.where(counts > 0.0, counts, 1.0)
        if not self.counts_rows:
            return CountPrecision(1.0, values, np.zeros(self.size))
        return CountPrecision(float(shares[0]), values, counts + sums + squares)

    def named(self, shares: FloatArray) -> RhoShares:
        """The shares by part and column."""
        counts, sums, squares = (tuple(part) for part in shares[1:].reshape(3, self.size).tolist())
        return RhoShares(float(shares[0]), counts, sums, squares)
