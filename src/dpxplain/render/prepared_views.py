"""How a prepared answer is shown: what was bought, in plain words."""

from __future__ import annotations

from dpxplain.phases.prepare_answer import Preparation
from dpxplain.privacy.calibration import two_sided_quantile
from dpxplain.render import words
from dpxplain.render.layout import Column, Grid, View
from dpxplain.results import formats
from dpxplain.results.prepared import PreparationPreview, Prepared
from dpxplain.results.sentences import NOT_PRIVATE

_ANY = "for any groups, weights, k and confidence, as often as you like"


def prepared_view(prepared: Prepared, most: int = 20) -> View:
    return View(
        title="Prepared: every why on this answer is now free",
        warning="" if prepared.private else NOT_PRIVATE,
        sql=formats.clean(prepared.sql),
        lead=(f"From now on why(...).explain() costs nothing, {_ANY}.",),
        grid=_bought(prepared.plan, "released once"),
        notes=(
            *(("Prepared before: nothing was spent now.",) if prepared.free else ()),
            words.cost(prepared.rho, prepared.spends),
        ),
    )


def preview_view(preview: PreparationPreview, most: int = 20) -> View:
    return View(
        title="Preview of preparing an answer: nothing is spent",
        sql=formats.clean(preview.sql),
        lead=(*words.price(preview.price), f"Afterwards every why on this answer is free, {_ANY}."),
        grid=_bought(preview.plan, "would be released", preview.confidence),
    )


def _bought(plan: Preparation, title: str, confidence: float = 0.95) -> Grid:
    reach, level = two_sided_quantile(confidence), formats.level(confidence)
    rows = [
        ("groups", f"{plan.groups:,}"),
        ("predicates", f"{plan.family.size:,}"),
        ("noisy cells", f"{plan.cells:,}"),
        (f"{level} noise on a cell's rows", f"± {formats.number(reach * plan.count_scale)}"),
    ]
    if plan.total_scale is not None:
        rows.append((f"{level} noise on a cell's sum", f"± {formats.number(reach * plan.total_scale)}"))
    return Grid((Column(title), Column("", "right")), tuple(rows))
