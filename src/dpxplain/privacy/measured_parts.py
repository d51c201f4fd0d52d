"""Vectors that are measured together: what one privacy unit can move in all of them at once, and how they
share ρ.

A part is a vector of whole numbers with one entry per group, such as the groups' rows. A block holds the
parts that one row moves in ways that exclude each other: a row has a value in a column or has none. Shares
of ρ minimise the product of the variances of the aggregates asked for, which no change of units can move:
the gradient of Σ log V is followed by multiplicative steps, as in optimal experimental design (Titterington
1976). They follow from public quantities only. Proofs: docs/proofs/shared-measurement.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpxplain.errors import InternalError
from dpxplain.privacy.calibration import gaussian_scale

Neighbours = Literal["unbounded", "bounded"]
PartKind = Literal["rows", "values", "nulls", "centred", "total", "squares", "persons", "bins"]
Move = tuple[float, ...]

_LESS = 1.0 - 2.0**-52


@dataclass(frozen=True)
class Part:
    """One vector; `reach` is the most that one row adds to it, in whole units of size `unit`.

    Of persons it is the most that one privacy unit adds, in Euclidean length, however many rows it has.
    """

    kind: PartKind
    column: str | None
    reach: float
    share: float  # of ρ
    unit: float = 1.0

    @property
    def name(self) -> str:
        """Tells the parts of one measurement apart; stored with releases.

        >>> Part("values", "pay", 1, 0.5).name
        'values pay'
        """
        return self.kind if self.column is None else f"{self.kind} {self.column}"


@dataclass(frozen=True)
class Block:
    """Parts, what one row can add to them, and how far apart the additions of two rows of one group can be.

    A move has one entry per part, as a multiple of the part's reach.
    """

    parts: tuple[Part, ...]
    added: tuple[Move, ...]
    replaced: tuple[Move, ...]


def persons_block(unit: str, groups: int, share: float) -> Block:
    """The privacy units with a row in each group: one unit adds 1 to each of at most `groups` groups.

    A unit that replaces another removes as many and adds as many.
    """
    reach = math.sqrt(groups) * (1.0 + 2.0**-50)
    return Block((Part("persons", unit, reach, share),), ((1.0,),), ((math.sqrt(2),),))


def bins_block(column: str, share: float) -> Block:
    """The groups' values by bin: a row adds 1 to one entry; one that replaces it may be in another bin."""
    return Block((Part("bins", column, 1, share),), ((1.0,),), ((math.sqrt(2),),))


def rows_block(share: float) -> Block:
    """The groups' rows: every row adds 1; replacing a row by one of its own group changes nothing."""
    return Block((Part("rows", None, 1, share),), ((1.0,),), ((0.0,),))


def total_block(column: str, low: int, high: int, unit: float, share: float) -> Block:
    """The sums of a column with values in [low, high], as they are; a row without a value adds nothing."""
    largest = max(abs(low), abs(high))
    apart = max(largest, high - low) / largest
    return Block((Part("total", column, largest, share, unit),), ((1.0,),), ((apart,),))


def values_block(column: str, share: float, *, nulls: bool) -> Block:
    """The rows with a value in the column and, with `nulls`, those without.

    A row is in one of the two counts, so both together cost what one does.
    """
    values, missing = Part("values", column, 1, share), Part("nulls", column, 1, share)
    if not nulls:
        return Block((values,), ((1.0,),), ((1.0,),))
    return Block((values, missing), ((1.0, 0.0), (0.0, 1.0)), ((1.0, 1.0),))


def centred_block(
    column: str, low: int, high: int, unit: float, count_share: float, sum_share: float, *, nulls: bool
) -> Block:
    """Rows with a value, their centred and doubled sum Σ(2x − low − high) and, with `nulls`, the others."""
    values = Part("values", column, 1, count_share)
    centred = Part("centred", column, high - low, sum_share, unit / 2)
    return _with_nulls((values, centred), ((0.0, 2.0),), nulls=nulls)


def squares_block(centred: Block, column: str, reach: int, unit: float, share: float) -> Block:
    """A centred block, and the centred squares Σ(2z² − reach) of its values z, which lie in [−reach, reach].

    Of two values in one group, sum and square can both move by twice their reach at most, though not at once.
    """
    values, total, *missing = centred.parts
    squares = Part("squares", column, reach, share, unit)
    return _with_nulls((values, total, squares), ((0.0, 2.0, 2.0),), nulls=bool(missing))


def _with_nulls(parts: tuple[Part, ...], replaced: tuple[Move, ...], *, nulls: bool) -> Block:
    """Parts that a row with a value moves by their reach, and the rows without one, counted for free."""
    value = (1.0,) * len(parts)
    if not nulls:
        return Block(parts, (value,), (*replaced, value))
    missing = Part("nulls", parts[0].column, 1, sum(part.share for part in parts))
    added = (*value, 0.0), (*(0.0 for _ in parts), 1.0)
    return Block((*parts, missing), added, (*((*move, 0.0) for move in replaced), (*value, 1.0)))


@dataclass(frozen=True)
class Measurement:
    """One Gaussian measurement of all parts, for exactly `rho` (docs/proofs/shared-measurement.md).

    Every part gets independent noise of its own scale. The cost is the largest, over neighbouring tables, of
    Σ distance²/(2·scale²), not the sum of what each part would cost by itself.
    """

    blocks: tuple[Block, ...]
    rho: float
    rows: int = 1  # of one privacy unit
    neighbours: Neighbours = "unbounded"

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for block in self.blocks for part in block.parts)

    @cached_property
    def rhos(self) -> Mapping[str, float]:
        """What each part's noise costs for a distance of reach × rows; together never more than ρ."""
        if len({part.name for part in self.parts}) < len(self.parts):
            raise InternalError("Two parts of a measurement have one name.")
        worst = float(self._cost({part.name: part.share for part in self.parts}))
        rhos = {part.name: self.rho * (part.share / worst) for part in self.parts}
        while self._cost(rhos) > Fraction(self.rho):
            rhos = {name: rho * _LESS for name, rho in rhos.items()}
        return rhos

    def scale(self, part: Part) -> float:
        """σ of the part's noise, in whole units."""
        return gaussian_scale(self.sensitivity(part), self.rhos[part.name])

    def sensitivity(self, part: Part) -> float:
        """The most that one unit's rows add to the part, in Euclidean length."""
        return float(part.reach * (1 if part.kind == "persons" else self.rows))

    def check(self) -> None:
        """Raises unless the parts' costs add up to ρ: never to more, and at most a billionth less."""
        if not Fraction(self.rho) * (1 - Fraction(1, 10**9)) <= self._cost(self.rhos) <= Fraction(self.rho):
            raise InternalError("The parts of a measurement do not compose to its planned cost.")

    def _cost(self, rhos: Mapping[str, float]) -> Fraction:
        """The cost for the worst pair of neighbours; `rhos` says what moving each part by its reach costs.

        Every block's worst moves can happen in one row. Replacing a row by one of another group is removing
        the one and adding the other, in different entries: twice the cost of adding.
        """
        added = sum((_worst(block, block.added, rhos) for block in self.blocks), Fraction(0))
        if self.neighbours == "unbounded":
            return added
        replaced = sum((_worst(block, block.replaced, rhos) for block in self.blocks), Fraction(0))
        return max(2 * added, replaced)


def _worst(block: Block, moves: Sequence[Move], rhos: Mapping[str, float]) -> Fraction:
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


FloatArray = NDArray[np.float64]

_STEPS = 400
_GRAIN = 1000  # shares are whole thousandths, so that rounding on another machine does not change them
_LEAST = 0.01  # a part that is measured gets at least this share


@dataclass(frozen=True)
class AskedColumn:
    """A column's aggregates as the objective sees them, in units of half the range of its bounds.

    `offsets` has, for each SUM and AVG, the squared distance from the middle of the bounds to the point that
    its sum is taken from: an error of one row in the count moves the result that far.
    """

    counted: bool  # COUNT(column) is asked
    offsets: tuple[float, ...]
    direct: bool = False  # only a SUM is asked, which needs no count
    squared: bool = False  # a variance or standard deviation is asked


@dataclass(frozen=True)
class Shares:
    """Shares of ρ, adding up to 1: of the rows, and of each column's count, centred sum and squares."""

    rows: float
    counts: tuple[float, ...]
    sums: tuple[float, ...]
    squares: tuple[float, ...] = ()


@lru_cache(maxsize=256)
def allocate(columns: tuple[AskedColumn, ...], *, counts_rows: bool) -> Shares:
    """The shares; `counts_rows` where COUNT(*) is asked.

    >>> allocate((AskedColumn(counted=False, offsets=(1.0,)),), counts_rows=False)  # SPEC section 4
    Shares(rows=0.0, counts=(0.5,), sums=(0.5,), squares=(0.0,))
    >>> allocate((AskedColumn(counted=False, offsets=(0.25,)),), counts_rows=True)
    Shares(rows=0.45, counts=(0.123,), sums=(0.427,), squares=(0.0,))
    """
    design = _Design(columns, counts_rows)
    shares = design.start()
    for _ in range(_STEPS):
        shares = shares * np.sqrt(design.gains(shares))
        shares = shares / shares.sum()
    return design.named(_rounded(shares))


def _rounded(shares: FloatArray) -> FloatArray:
    """Shares in whole thousandths, none but 0 below the least; the largest takes what is left."""
    used = shares > 0.0
    whole = np.where(used, np.maximum(np.rint(shares * _GRAIN), _LEAST * _GRAIN), 0.0)
    whole[int(np.argmax(whole))] += _GRAIN - whole.sum()
    return np.asarray(whole / _GRAIN)


class _Design:
    """The variances as functions of the shares: of the rows, then all counts, all sums and all squares."""

    def __init__(self, columns: Sequence[AskedColumn], counts_rows: bool) -> None:
        self.columns = columns
        self.counts_rows = counts_rows
        self.size = len(columns)

    def start(self) -> FloatArray:
        counts = [0.0 if column.direct else 1.0 for column in self.columns]
        sums = [1.0 if column.offsets or column.squared else 0.0 for column in self.columns]
        squares = [1.0 if column.squared else 0.0 for column in self.columns]
        shares = np.array([float(self.counts_rows), *counts, *sums, *squares])
        return np.asarray(shares / shares.sum())

    def covariance(self, shares: FloatArray) -> FloatArray:
        """The covariance of the estimated rows and the columns' counts, up to the common factor 1/(2ρ).

        The count of NULLs (rows minus values) is as precise as if it had the shares of count, sum and
        squares.
        """
        counts, sums, squares = shares[1:].reshape(3, self.size)
        precision = np.zeros((1 + self.size, 1 + self.size))
        precision[0, 0] = shares[0] if self.counts_rows else 1.0
        for place, (count, total) in enumerate(zip(counts, sums + squares, strict=True), start=1):
            precision[place, place] = count if count > 0.0 else 1.0
            if self.counts_rows:
                nulls = count + total
                precision[0, 0] += nulls
                precision[place, place] += nulls
                precision[0, place] = precision[place, 0] = -nulls
        return np.asarray(np.linalg.inv(precision))

    def gains(self, shares: FloatArray) -> FloatArray:
        """−∂/∂share of the mean log variance; at the optimum 1 wherever the share is not 0."""
        covariance = self.covariance(shares)
        slope, aggregates = np.zeros_like(shares), 0
        if self.counts_rows:
            slope += self._fall(covariance, 0) / covariance[0, 0]
            aggregates += 1
        for place, column in enumerate(self.columns, start=1):
            fall, variance = self._fall(covariance, place), covariance[place, place]
            if column.counted:
                slope += fall / variance
                aggregates += 1
            for offset in column.offsets:
                own = np.zeros_like(shares)
                own[place + self.size] = 1.0 / shares[place + self.size] ** 2
                slope += (own + offset * fall) / (1.0 / shares[place + self.size] + offset * variance)
                aggregates += 1
            if column.squared:
                total, square = shares[place + self.size], shares[place + 2 * self.size]
                own = np.zeros_like(shares)
                own[place + self.size], own[place + 2 * self.size] = 1.0 / total**2, 0.25 / square**2
                slope += (own + 0.25 * fall) / (1.0 / total + 0.25 / square + 0.25 * variance)
                aggregates += 1
        return np.where(shares > 0.0, slope / aggregates, 0.0)

    def _fall(self, covariance: FloatArray, place: int) -> FloatArray:
        """−∂ variance/∂share of one estimated count."""
        toward = covariance[:, place] ** 2
        fall = np.concatenate([toward, np.zeros(2 * self.size)])
        if self.counts_rows:
            nulls = (covariance[0, place] - covariance[1:, place]) ** 2
            fall[1:] += np.tile(nulls, 3)
        else:
            fall[0] = 0.0
        return fall

    def named(self, shares: FloatArray) -> Shares:
        counts, sums, squares = (tuple(part) for part in shares[1:].reshape(3, self.size).tolist())
        return Shares(float(shares[0]), counts, sums, squares)
