"""Formulas over released values, {+, −, ×, ÷, exp, log}, and their intervals (the paper's appendix).

Post-processing: reads no data and spends no budget. The true value of a formula exists only where it is
defined: a ratio to an empty group has none.
"""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from dpxplain.errors import BadRequest
from dpxplain.model.expression import ArithmeticOperator, Constant, Operation, applied, fold, walk
from dpxplain.model.release import FloatArray
from dpxplain.privacy.calibration import normal_cdf, normal_quantile, two_sided_quantile
from dpxplain.privacy.intervals import (
    Interval,
    Loadings,
    NoisyMean,
    NoisyMeans,
    check_confidence,
    gaussian_interval,
    mean_interval,
    weighted_means_interval,
)

# -- Formulas and their reduction --------------------------------------------------------------------------


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
        if writer.is_disjoint(formula):
            break
    return formula


class _Writer:
    """Turns weighted sums back into formulas, with sums and ratios of Gaussians collected into one atom."""

    def __init__(self, atoms: Mapping[Hashable, Atom], collects_ratios: bool, collects_sums: bool) -> None:
        self.atoms = dict(atoms)
        self.collects_ratios = collects_ratios
        self.collects_sums = collects_sums
        self.supports = {key: noises(key, atom) for key, atom in atoms.items()}

    def whole(self, form: Linear) -> NoisyFormula:
        """The whole formula from its weighted sum; one Gaussian if all terms are Gaussian."""
        parts = self.parts(form)
        if parts and len(parts) == len(form.weights):
            # One Gaussian. Its a-priori bounds are dropped, to agree with the intervals of phases 1 and 2.
            part = _weighted(form.weights, parts, form.offset)
            return self.collected(NoisyPart(part.value, part.scale), form.identity, parts)
        return self.form(form)

    def operation(self, operator: ArithmeticOperator, forms: Sequence[Linear]) -> NoisyFormula:
        """An operation on weighted sums; one atom if it is a ratio of two Gaussians."""
        if operator == "/" and self.collects_ratios:
            sides = [self.parts(form) for form in forms]
            ratio = _ratio(forms, sides)
            if ratio is not None:
                key = ("/", *(form.identity for form in forms))
                return self.collected(ratio, key, {**sides[0], **sides[1]})
        return Operation(operator, tuple(map(self.form, forms)))

    def form(self, form: Linear) -> NoisyFormula:
        """A weighted sum whose Gaussian terms are collected into one atom."""
        parts = self.parts(form)
        lead = form.weights[next(iter(parts))] if parts else 1.0
        shares = {key: form.weights[key] / lead for key in parts}
        if not self.collects_sums or len(parts) < 2 or not all(map(math.isfinite, shares.values())):
            return _spelled(form, self.atoms)
        gaussian = self.collected(_weighted(shares, parts), frozenset(shares.items()), parts)
        rest = {key: weight for key, weight in form.weights.items() if key not in parts}
        return _spelled(Linear({Term(gaussian): lead, **rest}, form.offset), self.atoms)

    def collected(self, atom: Atom, key: Hashable, parts: Mapping[Hashable, NoisyPart]) -> NoisyValue:
        """The atom that replaces these parts; it has the noises of all of them."""
        self.supports[key] = frozenset().union(*(self.supports[part] for part in parts))
        return NoisyValue(key, atom)

    def is_disjoint(self, formula: NoisyFormula) -> bool:
        """Whether no two atoms of the formula share a noise."""
        used = [self.supports[key] for key in leaves(formula)]
        return sum(map(len, used)) == len(frozenset().union(*used))

    def parts(self, form: Linear) -> dict[Hashable, NoisyPart]:
        """The terms that are Gaussian."""
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


# -- Methods -----------------------------------------------------------------------------------------------

METHODS = ("auto", "image", "bootstrap")
DEFAULT_FORMULA_METHOD = "auto"


def check_method(method: str) -> str:
    """The method's name, or BadRequest if there is no such method."""
    if method not in METHODS:
        raise BadRequest(
            "There is no interval method with this name.", remedy=f"Choose one of: {', '.join(METHODS)}."
        )
    return method


def estimate(expression: NoisyFormula) -> float:
    """The formula at the released values, each clamped to its a-priori bounds. Never NaN.

    x/0 and log 0 are infinite; 0/0, ∞ − ∞ and 0 × ∞ count as 0, and their interval is unbounded.
    """
    return _estimate(reduce(expression))


def interval(expression: NoisyFormula, confidence: float, method: str = DEFAULT_FORMULA_METHOD) -> Interval:
    """The interval of the formula's true value; it contains the estimate.

    - `image`: the range of the formula over a box that holds the true values with probability `confidence`.
      Provable at every size of group. The box has one interval per atom of the reduced formula, by the union
      bound, which holds whether or not they share noise. An atom is a weighted sum of counts and sums (a
      Gaussian with its exact scale), a ratio of two such (Fieller), or an average (Fieller, inside the bounds
      of x); so A + B, A / B and functions of one of them have exactly the nominal level. The paper's box has
      a side for every sum and count, and is wider.
    - `bootstrap`: bias-corrected percentiles of the noise added again many times. Near its level while the
      noise is small against every divisor and every argument of log; for small groups it can fall short.
    - `auto`: `image`, except that weighted sums of averages that share no noise get a question's interval
      (`weighted_means_interval`).

    >>> a, b = NoisyValue("A", NoisyPart(200.0, 2.0)), NoisyValue("B", NoisyPart(100.0, 2.0))
    >>> for method in METHODS:
    ...     low, high = interval(Operation("/", (a, b)), 0.95, method)
    ...     print(f"{method:9} {low:.3f} {high:.3f}")
    auto      1.915 2.091
    image     1.915 2.091
    bootstrap 1.915 2.094
    >>> interval(Operation("-", (a, a)), 0.95)
    (0.0, 0.0)
    """
    level, method = check_confidence(confidence), check_method(method)
    formula = reduce(expression)
    ends = _sum_of_means(expression, level) if method == "auto" else None
    low, high = ends or (_bootstrap(formula, level) if method == "bootstrap" else _image(formula, level))
    at = _estimate(formula)
    return min(low, at), max(high, at)


def _sum_of_means(expression: NoisyFormula, confidence: float) -> Interval | None:
    """`weighted_means_interval` if the formula is a weighted sum of averages that share no noise, or None."""
    form, atoms = linear(expression), leaves(expression)
    if form is None or not form.weights:
        return None
    means = [mean for key in form.weights if isinstance(mean := atoms[key], NoisyMean)]
    if len(means) < len(form.weights) or share_noise({key: atoms[key] for key in form.weights}):
        return None
    low, high = weighted_means_interval(means, list(form.weights.values()), confidence)
    ends = low + form.offset, high + form.offset
    return ends if all(map(math.isfinite, ends)) else None


# -- Image -------------------------------------------------------------------------------------------------

_SPLITS = 40  # of the box, per end, where a value occurs more than once
_HOPELESS = 8  # splits after which an end that is still infinite is taken to be infinite
_STEPS = 20_000  # of arithmetic, per end: a long formula is split less
_HIGHEST_LEVEL = math.nextafter(1.0, 0.0)


def _image(formula: NoisyFormula, confidence: float) -> Interval:
    atoms = leaves(formula)
    level = min(1.0 - (1.0 - confidence) / max(1, len(atoms)), _HIGHEST_LEVEL)
    sides = [_side(atom, level) for atom in atoms.values()]
    box = np.array(sides, dtype=np.float64).reshape(-1, 2).T
    if repeats(formula):
        low = _least(formula, atoms, box)
        high = -_least(Operation("neg", (formula,)), atoms, box)
    else:
        # Every value occurs once: interval arithmetic gives the range itself.
        span = _span_over(formula, atoms, box, slopes=False)
        low, high = span.low, span.high
    # Ends beyond the range of floats are shown as infinite.
    return (math.inf if low >= LARGEST else low), (-math.inf if high <= -LARGEST else high)


def _clamped(atom: Atom) -> float:
    """The released value, moved to the nearest possible one."""
    if isinstance(atom, NoisyPart):
        return min(max(atom.value, atom.low), atom.high)
    if isinstance(atom, NoisyMean):
        return atom.estimate
    if isinstance(atom, NoisyImage):
        return atom.value
    return float(_quotient(*(np.asarray(_clamped(part)) for part in (atom.numerator, atom.denominator))))


def _side(atom: Atom, confidence: float) -> Interval:
    """The interval of an atom's true value.

    A part is first moved to the nearest possible value. The interval around that value contains every
    possible value of the interval around the released one, and is never empty.
    """
    if isinstance(atom, NoisyMean):
        return mean_interval(atom, confidence, "fieller")
    if isinstance(atom, NoisyRatio):
        return _ratio_side(atom, confidence)
    if isinstance(atom, NoisyImage):
        return atom.interval(confidence)
    if not (math.isfinite(atom.value) and math.isfinite(atom.scale)):
        return atom.low, atom.high
    low, high = gaussian_interval(_clamped(atom), atom.scale, confidence)
    return max(low, atom.low), min(high, atom.high)


def _ratio_side(ratio: NoisyRatio, confidence: float) -> Interval:
    """Fieller: in units of the noise, the lines through the origin that pass within z of the noisy point.

    The true ratio is the slope of such a line with exactly the probability asked for, however small the
    denominator. Where neither part can be negative, slopes below 0 are left out.
    """
    above, below = ratio.numerator, ratio.denominator
    unit = ratio.rest_scale / below.scale
    x, y = below.value / below.scale, (above.value - ratio.slope * below.value) / ratio.rest_scale
    angle, distance = math.atan2(y, x), math.hypot(x, y)
    z = two_sided_quantile(confidence)
    spread = math.asin(z / distance) if z < distance else math.pi

    never_negative = above.low >= 0.0 and below.low >= 0.0
    first, last = math.atan(-ratio.slope / unit) if never_negative else -math.pi / 2, math.pi / 2
    # A line has two directions. If neither is possible, the nearest possible direction is taken.
    turns = [(angle + turn - spread, angle + turn + spread) for turn in (-math.pi, 0.0, math.pi)]
    possible = [(max(start, first), min(end, last)) for start, end in turns if start <= last and end >= first]
    nearest = min(max(angle, first), last)
    starts, ends = zip(*possible or [(nearest, nearest)], strict=True)

    def slope(direction: float) -> float:
        if never_negative and direction == first:
            return 0.0
        return ratio.slope + unit * math.tan(direction) if abs(direction) < last else direction * math.inf

    return slope(min(starts)), slope(max(ends))


def _span_over(
    formula: NoisyFormula, atoms: Mapping[Hashable, Atom], box: FloatArray, *, slopes: bool
) -> Span:
    index = {key: position for position, key in enumerate(atoms)}
    size = len(index) if slopes else 0
    low, high = box.tolist()

    def operate(operator: ArithmeticOperator, spans: Sequence[Span]) -> Span:
        span: Span = applied(operator, spans, Span.exp, Span.log)
        return span

    return fold(
        formula,
        lambda leaf: variable(index[leaf.key], size, low[index[leaf.key]], high[index[leaf.key]]),
        lambda value: constant(value, size),
        operate,
    )


@np.errstate(all="ignore")  # overflowing sizes are only compared
def _least(formula: NoisyFormula, atoms: Mapping[Hashable, Atom], box: FloatArray) -> float:
    """A lower bound of the formula over the box: interval arithmetic, made tighter, never too tight.

    Where a slope has one sign over a box, the least value lies on that side of it (the mean value theorem; a
    formula that is not defined throughout has slopes of both signs). The box with the lowest bound is split
    in two, again and again. Stopping early costs width, not validity.
    """
    width = np.maximum(box[1] - box[0], math.ulp(0.0))
    order = count()  # breaks ties in the heap, since arrays cannot be compared

    def bounded(box: FloatArray) -> tuple[float, int, FloatArray, FloatArray]:
        while True:
            span = _span_over(formula, atoms, box, slopes=True)
            low, high = box
            rising, falling = span.slopes[0] >= 0.0, span.slopes[1] <= 0.0
            if not np.any((rising | falling) & (low < high)):
                steepness = np.nan_to_num(np.abs(span.slopes).max(axis=0) * width, posinf=1e300)
                return span.low, next(order), box, steepness
            box = np.array([np.where(falling & ~rising, high, low), np.where(rising, low, high)])

    waiting = [bounded(box)]
    for splits in range(min(_SPLITS, _STEPS // len(walk(formula)))):
        bound, _, (low, high), steepness = waiting[0]
        size = high - low
        # At a single point the value is attained: no bound can be better.
        if not np.any((size > 0.0) & np.isfinite(size)) or (bound == -math.inf and splits >= _HOPELESS):
            break
        at = int(np.argmax(np.where(np.isfinite(size), steepness * (size / width), -1.0)))
        left, right = np.array([low, high]), np.array([low, high])
        left[1, at] = right[0, at] = low[at] + size[at] / 2.0
        heapq.heapreplace(waiting, bounded(left))
        heapq.heappush(waiting, bounded(right))
    return waiting[0][0]


# -- Bootstrap ---------------------------------------------------------------------------------------------

_RESAMPLES = 4000
_FEWEST_BEYOND = 10  # resamples beyond either end of an interval


def _bootstrap(formula: NoisyFormula, confidence: float) -> Interval:
    """The paper's appendix, with ties split evenly: otherwise a value at a bound would look biased."""
    if (1.0 - confidence) / 2.0 * _RESAMPLES < _FEWEST_BEYOND:
        most = 1.0 - 2.0 * _FEWEST_BEYOND / _RESAMPLES
        raise BadRequest(
            f"The bootstrap's {_RESAMPLES:,} resamples are enough for a confidence of at most {most:g}.",
            remedy='Use the interval method "image", or a lower confidence.',
        )
    draws = np.random.default_rng(1985)  # seeded: post-processing of released values, not privacy noise
    atoms = leaves(formula)
    if any(isinstance(atom, NoisyImage) for atom in atoms.values()):
        raise BadRequest(
            "The bootstrap is not defined for variances and quantiles.",
            remedy='Use the interval method "image".',
        )
    if share_noise(atoms):
        resamples = _resampled_together(atoms, draws)
    else:
        resamples = {key: _resampled(atom, draws) for key, atom in atoms.items()}
    values = np.sort(np.broadcast_to(_values(formula, resamples), _RESAMPLES))
    at = _estimate(formula)

    share = float(np.mean(values < at) + np.mean(values <= at)) / 2.0
    bias = normal_quantile(min(max(share, 1.0 / _RESAMPLES), 1.0 - 1.0 / _RESAMPLES))
    z = two_sided_quantile(confidence)
    first = math.ceil(_RESAMPLES * normal_cdf(2.0 * bias - z)) - 1
    last = math.floor(_RESAMPLES * normal_cdf(2.0 * bias + z))
    return float(values[max(first, 0)]), float(values[min(last, _RESAMPLES - 1)])


def _resampled(atom: Atom, draws: np.random.Generator) -> FloatArray:  # from the seeded generator above
    if isinstance(atom, NoisyRatio):
        below_noise = atom.denominator.scale * draws.standard_normal(_RESAMPLES)
        above_noise = atom.slope * below_noise + atom.rest_scale * draws.standard_normal(_RESAMPLES)
        return _quotient(_noisy(atom.numerator, above_noise), _noisy(atom.denominator, below_noise))
    if isinstance(atom, NoisyPart):
        return _noisy(atom, atom.scale * draws.standard_normal(_RESAMPLES))
    assert isinstance(atom, NoisyMean)
    sum_noise, count_noise = draws.standard_normal((2, _RESAMPLES))
    return _noisy_mean(atom, atom.sum_scale * sum_noise, atom.count_scale * count_noise)


def _resampled_together(
    atoms: Mapping[Hashable, Atom],
    draws: np.random.Generator,  # seeded, as above
) -> dict[Hashable, FloatArray]:
    """Resamples of released values that share noise; each independent noise is drawn once for all of them."""
    drawn: dict[Hashable, FloatArray] = {}

    def noise(loadings: Loadings) -> FloatArray:
        for name, _ in loadings:
            if name not in drawn:
                drawn[name] = draws.standard_normal(_RESAMPLES)
        return np.asarray(sum((factor * drawn[name] for name, factor in loadings), np.zeros(_RESAMPLES)))

    resamples: dict[Hashable, FloatArray] = {}
    for key, atom in atoms.items():
        if isinstance(atom, NoisyMean):
            sums = noise(atom.sum_noise or (((key, "sum"), atom.sum_scale),))
            counts = noise(atom.count_noise or (((key, "count"), atom.count_scale),))
            resamples[key] = _noisy_mean(atom, sums, counts)
        elif isinstance(atom, NoisyPart):
            resamples[key] = _noisy(atom, noise(atom.noise or ((key, atom.scale),)))
        elif isinstance(atom, NoisyRatio):
            above, below = atom.numerator, atom.denominator
            resamples[key] = _quotient(_noisy(above, noise(above.noise)), _noisy(below, noise(below.noise)))
    return resamples


def _noisy_mean(mean: NoisyMean, sum_noise: FloatArray, count_noise: FloatArray) -> FloatArray:
    parts = NoisyMeans.of([mean])
    return replace(
        parts, noisy_sum=parts.noisy_sum + sum_noise, noisy_count=parts.noisy_count + count_noise
    ).estimates


def _noisy(part: NoisyPart, noise: FloatArray) -> FloatArray:
    return np.clip(part.value + noise, part.low, part.high)


# -- Values ------------------------------------------------------------------------------------------------


def _estimate(formula: NoisyFormula) -> float:
    return float(_values(formula, {key: np.asarray(_clamped(atom)) for key, atom in leaves(formula).items()}))


def _quotient(above: FloatArray, below: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        # Adding 0 turns −0 into 0: a count of zero is approached from above.
        ratio = above / (below + 0.0)
    return np.where(np.isnan(ratio), 0.0, ratio)


def _values(formula: NoisyFormula, at: Mapping[Hashable, FloatArray]) -> FloatArray:
    """The formula in floats, for one value per atom or for many. Indeterminate forms count as 0."""

    def operate(operator: ArithmeticOperator, values: Sequence[FloatArray]) -> FloatArray:
        result = _quotient(*values) if operator == "/" else applied(operator, values, np.exp, _log)
        return np.where(np.isnan(result), 0.0, result)

    with np.errstate(all="ignore"):
        return fold(formula, lambda leaf: at[leaf.key], np.asarray, operate)


def _log(values: FloatArray) -> FloatArray:
    return np.log(np.maximum(values, 0.0))


# -- Interval arithmetic -----------------------------------------------------------------------------------
#
# Bounds of a formula's value and gradient over a box.
#
# Ends are extended reals, exact up to floating-point rounding, and never NaN. Where a formula is not defined
# the span is unbounded: 1/[0, 2] is [1/2, ∞], 1/[−1, 2] the whole line, log [−1, 2] is [−∞, log 2].
# A larger box never gives a smaller span, so more confidence never gives a narrower interval.

# A low end of +∞ would exclude the finite value, too large for a float, that it stands for.
LARGEST = sys.float_info.max
_SMALLEST = math.ulp(0.0)


@dataclass(frozen=True)
class Span:
    """All values between `low` and `high`; `slopes` holds the ends of each variable's partial derivative.

    >>> x, y = variable(0, 2, 1.0, 2.0), variable(1, 2, 4.0, 5.0)
    >>> ratio = x / y
    >>> ratio.low, ratio.high, ratio.slopes.round(3).tolist()
    (0.2, 0.5, [[0.2, -0.125], [0.25, -0.04]])
    """

    low: float
    high: float
    slopes: FloatArray

    def __add__(self, other: Span) -> Span:
        return _span(self.low + other.low, self.high + other.high, _added_slopes(self.slopes, other.slopes))

    def __neg__(self) -> Span:
        return Span(-self.high, -self.low, -self.slopes[::-1])

    def __sub__(self, other: Span) -> Span:
        return self + -other

    def __mul__(self, other: Span) -> Span:
        ends = [_times(x, y) for x in (self.low, self.high) for y in (other.low, other.high)]
        slopes = _added_slopes(
            _scaled_slopes(self.slopes, other.low, other.high),
            _scaled_slopes(other.slopes, self.low, self.high),
        )
        return _span(min(ends), max(ends), slopes)

    def __truediv__(self, other: Span) -> Span:
        low, high = _reciprocal(other.low, other.high)
        if other.low > 0.0 or other.high < 0.0:
            ends = [_over(x, y) for x in (self.low, self.high) for y in (other.low, other.high)]
        else:
            ends = [_times(x, y) for x in (self.low, self.high) for y in (low, high)]
            low, high = -math.inf, math.inf  # not defined throughout, so its derivatives are unbounded
        value = _span(min(ends), max(ends), self.slopes)
        change = _added_slopes(self.slopes, -_scaled_slopes(other.slopes, value.low, value.high)[::-1])
        return Span(value.low, value.high, _scaled_slopes(change, low, high))

    def exp(self) -> Span:
        # The high end must not underflow to an exact zero, which times ∞ would be 0.
        value = _span(_exp(self.low), max(_exp(self.high), _SMALLEST), self.slopes)
        return Span(value.low, value.high, _scaled_slopes(self.slopes, value.low, value.high))

    def log(self) -> Span:
        slope = _reciprocal(self.low, self.high) if self.low > 0.0 else (-math.inf, math.inf)
        return _span(_log_ends(self.low), _log_ends(self.high), _scaled_slopes(self.slopes, *slope))


def variable(index: int, variables: int, low: float, high: float) -> Span:
    """One of the box's variables; `variables` = 0 computes values without derivatives."""
    slopes = np.zeros((2, variables))
    slopes[:, index : index + 1] = 1.0
    return Span(low, high, slopes)


def constant(value: float, variables: int) -> Span:
    return Span(value, value, np.zeros((2, variables)))


def _span(low: float, high: float, slopes: FloatArray) -> Span:
    """A span without NaN (∞ − ∞ gives an infinite end) and without a low end of +∞ or a high end of −∞."""
    low = -math.inf if math.isnan(low) else min(low, LARGEST)
    high = math.inf if math.isnan(high) else max(high, -LARGEST)
    return Span(low, high, slopes)


def _times(x: float, y: float) -> float:
    """x · y, where 0 × ∞ is 0: ∞ stands for arbitrarily large numbers."""
    return 0.0 if x == 0.0 or y == 0.0 else x * y


def _over(x: float, y: float) -> float:
    """x / y for y ≠ 0; 0 for ∞/∞, because the extremes are then among the other corners."""
    return 0.0 if math.isinf(x) and math.isinf(y) else x / y


def _reciprocal(low: float, high: float) -> tuple[float, float]:
    if low > 0.0 or high < 0.0:
        return 1.0 / high, 1.0 / low
    if low == 0.0 < high:
        return 1.0 / high, math.inf
    if low < 0.0 == high:
        return -math.inf, 1.0 / low
    return -math.inf, math.inf


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _log_ends(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf


def _added_slopes(left: FloatArray, right: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        total = left + right
    low, high = total
    return np.array([np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)])


def _scaled_slopes(slopes: FloatArray, low: float, high: float) -> FloatArray:
    """Slopes times a span, with 0 × ∞ = 0 as in `_times`."""
    if slopes.size == 0:
        return slopes
    with np.errstate(all="ignore"):
        ends = np.concatenate([slopes * low, slopes * high])
    ends[np.isnan(ends)] = 0.0
    return np.array([ends.min(axis=0), ends.max(axis=0)])
