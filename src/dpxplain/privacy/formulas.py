"""Formulas over released values, and their reduction to few noisy quantities.

`reduce` finds the quantities that need an interval each: a value that occurs twice is one quantity, and a
weighted sum of Gaussians is one Gaussian. Released values of one SELECT may share noise; the scale of a sum
and the covariance of a ratio follow from the independent noises that they are made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from dpxplain.model.expression import ArithmeticOperator, Constant, Operation, fold, walk
from dpxplain.privacy.intervals import Loadings, NoisyMean


@dataclass(frozen=True)
class NoisyPart:
    """A released COUNT or SUM with the a-priori bounds of the true value: a count is never below 0.

    `noise` lists its independent noises if other released values share them; () means noise of its own.
    """

    value: float
    scale: float
    low: float = -math.inf
    high: float = math.inf
    noise: Loadings = ()


@dataclass(frozen=True)
class NoisyRatio:
    """One part divided by another; the numerator's noise is `slope` · denominator's + an independent rest."""

    numerator: NoisyPart
    denominator: NoisyPart
    slope: float  # 0 where the two share no released value
    rest_scale: float


@dataclass(frozen=True)
class NoisyImage:
    """A released value that is known only by its intervals, such as a standard deviation."""

    value: float
    interval: Callable[[float], tuple[float, float]]  # at any confidence
    noise: Loadings = ()


Atom = NoisyPart | NoisyMean | NoisyRatio | NoisyImage


@dataclass(frozen=True)
class NoisyValue:
    """A released value as a leaf of a formula. Equal keys are the same release, with the same noise."""

    key: Hashable
    atom: Atom


NoisyFormula = NoisyValue | Constant[float] | Operation["NoisyFormula"]


def leaves(root: NoisyFormula) -> dict[Hashable, Atom]:
    """The distinct released values, in order of appearance."""
    return {node.key: node.atom for node in walk(root) if isinstance(node, NoisyValue)}


def repeats(root: NoisyFormula) -> bool:
    """Whether a value occurs twice, so that interval arithmetic alone would be too wide."""
    is_repeated = False

    def union(_operator: ArithmeticOperator, sets: Sequence[frozenset[Hashable]]) -> frozenset[Hashable]:
        nonlocal is_repeated
        keys = frozenset().union(*sets)
        is_repeated = is_repeated or len(keys) < sum(map(len, sets))
        return keys

    fold(root, lambda node: frozenset([node.key]), lambda _: frozenset(), union)
    return is_repeated


@dataclass(frozen=True, eq=False)
class Term:
    """A part of a weighted sum that is a formula itself. Compared by identity: a formula may be huge."""

    formula: NoisyFormula


@dataclass(frozen=True, eq=False)
class Linear:
    """A weighted sum plus a constant; terms are released values (by key) or formulas."""

    weights: Mapping[Hashable, float]
    offset: float

    @property
    def identity(self) -> Hashable:
        return frozenset(self.weights.items()), self.offset


def linear(root: NoisyFormula) -> Linear | None:
    """The formula as a weighted sum of released values, if it is one.

    >>> a, b = NoisyValue("A", NoisyPart(9.0, 1.0)), NoisyValue("B", NoisyPart(5.0, 1.0))
    >>> total = Operation("+", (a, Operation("-", (b, a))))
    >>> linear(total).weights, linear(Operation("*", (total, a)))
    ({'B': 1.0}, None)
    """
    form = _linear(root, lambda operator, _: Operation(operator, ()))
    return None if any(isinstance(key, Term) for key in form.weights) else form


def reduce(root: NoisyFormula) -> NoisyFormula:
    """The same formula over fewer atoms: A − A vanishes, A / (A + B) is one ratio of two Gaussians.

    Ratios and sums are collected only if no released value is left in two atoms: A/B − A/C is a formula of
    A, B and C. The choice depends on how the formula is written, not on what was released.
    """
    atoms = leaves(root)
    for ratios, sums in ((True, True), (False, True), (False, False)):
        writer = _Writer(atoms, ratios, sums)
        formula = writer.whole(_linear(root, writer.operation))
        if writer.disjoint(formula):
            break
    return formula


class _Writer:
    """Turns weighted sums back into formulas, with sums and ratios of Gaussians collected into one atom."""

    def __init__(self, atoms: Mapping[Hashable, Atom], ratios: bool, sums: bool) -> None:
        self.atoms = dict(atoms)
        self.ratios = ratios
        self.sums = sums
        self.supports = {key: noises(key, atom) for key, atom in atoms.items()}

    def whole(self, form: Linear) -> NoisyFormula:
        parts = self.parts(form)
        if parts and len(parts) == len(form.weights):
            # One Gaussian. Its a-priori bounds are dropped, to agree with the intervals of phases 1 and 2.
            part = _weighted(form.weights, parts, form.offset)
            return self.collected(NoisyPart(part.value, part.scale), form.identity, parts)
        return self.form(form)

    def operation(self, operator: ArithmeticOperator, forms: Sequence[Linear]) -> NoisyFormula:
        if operator == "/" and self.ratios:
            sides = [self.parts(form) for form in forms]
            ratio = _ratio(forms, sides)
            if ratio is not None:
                key = ("/", *(form.identity for form in forms))
                return self.collected(ratio, key, {**sides[0], **sides[1]})
        return Operation(operator, tuple(map(self.form, forms)))

    def form(self, form: Linear) -> NoisyFormula:
        parts = self.parts(form)
        lead = form.weights[next(iter(parts))] if parts else 1.0
        shares = {key: form.weights[key] / lead for key in parts}
        if not self.sums or len(parts) < 2 or not all(map(math.isfinite, shares.values())):
            return _spelled(form, self.atoms)
        gaussian = self.collected(_weighted(shares, parts), frozenset(shares.items()), parts)
        rest = {key: weight for key, weight in form.weights.items() if key not in parts}
        return _spelled(Linear({Term(gaussian): lead, **rest}, form.offset), self.atoms)

    def collected(self, atom: Atom, key: Hashable, parts: Mapping[Hashable, NoisyPart]) -> NoisyValue:
        self.supports[key] = frozenset().union(*(self.supports[part] for part in parts))
        return NoisyValue(key, atom)

    def disjoint(self, formula: NoisyFormula) -> bool:
        used = [self.supports[key] for key in leaves(formula)]
        return sum(map(len, used)) == len(frozenset().union(*used))

    def parts(self, form: Linear) -> dict[Hashable, NoisyPart]:
        return {key: atom for key in form.weights if isinstance(atom := self.atoms.get(key), NoisyPart)}


def noises(key: Hashable, atom: Atom) -> frozenset[Hashable]:
    """The independent noises in a released value."""
    if isinstance(atom, NoisyMean):
        loadings: Loadings = (*atom.sum_noise, *atom.count_noise)
    else:
        loadings = atom.noise if isinstance(atom, NoisyPart | NoisyImage) else ()
    return frozenset(noise for noise, _ in loadings) or frozenset([key])


def share_noise(atoms: Mapping[Hashable, Atom]) -> bool:
    """Whether two of the released values share a noise."""
    supports = [noises(key, atom) for key, atom in atoms.items()]
    return sum(map(len, supports)) > len(frozenset().union(*supports))


def _linear(
    root: NoisyFormula, write: Callable[[ArithmeticOperator, Sequence[Linear]], NoisyFormula]
) -> Linear:
    """The formula as a weighted sum whose nonlinear terms are formulas made by `write`.

    Equal operations become one term, so that A/B − A/B vanishes like A − A.
    """
    operations: dict[Hashable, Term] = {}

    def operate(operator: ArithmeticOperator, forms: Sequence[Linear]) -> Linear:
        combined = _combined(operator, *forms)
        if combined is not None:
            return combined
        key = (operator, *(form.identity for form in forms))
        if key not in operations:
            operations[key] = Term(write(operator, forms))
        return Linear({operations[key]: 1.0}, 0.0)

    return fold(root, lambda node: Linear({node.key: 1.0}, 0.0), lambda value: Linear({}, value), operate)


def _combined(operator: ArithmeticOperator, first: Linear, last: Linear | None = None) -> Linear | None:
    """The operation's result as a weighted sum; None if it is not one or leaves the range of floats."""
    if operator == "neg":
        return _scaled(first, lambda weight: -weight)
    if last is None:
        return None
    if operator in ("+", "-"):
        return _added(first, last, 1.0 if operator == "+" else -1.0)
    if operator == "*" and not first.weights:
        return _scaled(last, lambda weight: first.offset * weight)
    if operator == "*" and not last.weights:
        return _scaled(first, lambda weight: weight * last.offset)
    if operator == "/" and not last.weights and last.offset != 0.0:
        return _scaled(first, lambda weight: weight / last.offset)
    if operator == "/" and last.weights and first.identity == last.identity:
        return Linear({}, 1.0)
    return None


def _added(first: Linear, last: Linear, sign: float) -> Linear | None:
    # Only changed weights are checked: a sum of thousands of groups is built term by term.
    weights, offset = dict(first.weights), first.offset + sign * last.offset
    for key, weight in last.weights.items():
        weights[key] = weights.get(key, 0.0) + sign * weight
        if weights[key] == 0.0:
            del weights[key]
        elif not math.isfinite(weights[key]):
            return None
    return Linear(weights, offset) if math.isfinite(offset) else None


def _scaled(form: Linear, change: Callable[[float], float]) -> Linear | None:
    weights, offset = {key: change(weight) for key, weight in form.weights.items()}, change(form.offset)
    if not math.isfinite(offset) or not all(map(math.isfinite, weights.values())):
        return None
    return Linear({key: weight for key, weight in weights.items() if weight != 0.0}, offset)


def _weighted(
    weights: Mapping[Hashable, float], parts: Mapping[Hashable, NoisyPart], offset: float = 0.0
) -> NoisyPart:
    """Σ weight·part + offset: its value, exact scale and the bounds that follow from its parts' bounds."""
    terms = [(weights[key], part) for key, part in parts.items()]
    value = sum((weight * part.value for weight, part in terms), offset)
    finite = math.isfinite(value)  # beyond the range of floats the value counts as unknown
    noise = _loadings(weights, parts)
    return NoisyPart(
        value=value if finite else 0.0,
        scale=math.hypot(*noise.values()) if finite else math.inf,
        noise=tuple(noise.items()),
        low=sum((weight * (part.low if weight > 0 else part.high) for weight, part in terms), offset),
        high=sum((weight * (part.high if weight > 0 else part.low) for weight, part in terms), offset),
    )


def _loadings(
    weights: Mapping[Hashable, float], parts: Mapping[Hashable, NoisyPart]
) -> dict[Hashable, float]:
    """The factor of each independent noise in Σ weight·part; shared noises add up or cancel."""
    factors: dict[Hashable, float] = {}
    for key, part in parts.items():
        for noise, loading in part.noise or ((key, part.scale),):
            factors[noise] = factors.get(noise, 0.0) + weights[key] * loading
    return factors


def _ratio(forms: Sequence[Linear], sides: Sequence[Mapping[Hashable, NoisyPart]]) -> NoisyRatio | None:
    """The ratio of two Gaussians; None if it is not one, or too large or small for floats."""
    if not all(len(parts) == len(form.weights) > 0 for form, parts in zip(forms, sides, strict=True)):
        return None
    above, below = (
        _weighted(form.weights, parts, form.offset) for form, parts in zip(forms, sides, strict=True)
    )
    if not (0.0 < above.scale < 1e150 and 1e-150 < below.scale < 1e150):
        return None
    upper, lower = dict(above.noise), dict(below.noise)
    shared = sum(factor * lower[noise] for noise, factor in upper.items() if noise in lower)
    slope = shared / below.scale**2
    rest_variance = above.scale**2 - slope * shared
    # Without noise of its own the numerator is a function of the denominator, not a second Gaussian.
    if not rest_variance > 1e-9 * above.scale**2:
        return None
    sizes = above.value / above.scale, below.value / below.scale, slope * below.value / above.scale
    unit = math.sqrt(rest_variance) / below.scale
    usable = all(abs(size) < 1e150 for size in sizes) and 1e-150 < unit < 1e150
    return NoisyRatio(above, below, slope, math.sqrt(rest_variance)) if usable else None


def _spelled(form: Linear, atoms: Mapping[Hashable, Atom]) -> NoisyFormula:
    """A weighted sum as a formula, term by term."""
    total: NoisyFormula | None = Constant(form.offset) if form.offset or not form.weights else None
    for key, weight in form.weights.items():
        term = key.formula if isinstance(key, Term) else NoisyValue(key, atoms[key])
        if weight != 1.0:
            term = Operation("*", (Constant(weight), term))
        total = term if total is None else Operation("+", (total, term))
    assert total is not None
    return total
