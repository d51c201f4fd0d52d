"""Vectors that are measured together, and what one privacy unit can move in all of them at once.

A part is a vector of whole numbers with one entry per group, such as the groups' rows. A block holds the
parts that one row moves in ways that exclude each other: a row has a value in a column or has none. Proofs:
docs/proofs/shared-measurement.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

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
        """Raises unless the parts' costs compose to ρ: not to more, and to a billionth less at most."""
        if not Fraction(self.rho) * (1 - Fraction(1, 10**9)) <= self._cost(self.rhos) <= Fraction(self.rho):
            raise InternalError("The parts of a measurement do not compose to its planned cost.")

    def _cost(self, rhos: Mapping[str, float]) -> Fraction:
        """The worst neighbours' cost where moving a part by its reach costs `rhos` of its name.

        Every block's worst moves can happen in one row. Replacing a row by one of another group is removing
        the one and adding the other, in different entries: twice the cost of adding.
        """
        added = sum((_worst(block, block.added, rhos) for block in self.blocks), Fraction(0))
        if self.neighbours == "unbounded":
            return added
        replaced = sum((_worst(block, block.replaced, rhos) for block in self.blocks), Fraction(0))
        return max(2 * added, replaced)


def _worst(block: Block, moves: Sequence[Move], rhos: Mapping[str, float]) -> Fraction:
    """Exact: a cost grows with the square of the distance."""
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
