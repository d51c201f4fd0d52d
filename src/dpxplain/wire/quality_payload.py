"""The quality of a data set as plain JSON values."""

from __future__ import annotations

import math

from dpxplain.model.budget import Budget
from dpxplain.results import formats
from dpxplain.results.quality import Quality
from dpxplain.wire.account_payloads import budget_figures, spend_payloads
from dpxplain.wire.shapes import QualityLine, QualityPayload, UnitsPayload


def quality_payload(quality: Quality, budget: Budget) -> QualityPayload:
    return QualityPayload(
        kind="quality",
        id=quality.id,
        rho=quality.rho,
        free=quality.free,
        private=quality.private,
        confidence=quality.confidence,
        rows=[
            QualityLine(
                column=row.column,
                misfit=row.misfit,
                share=row.estimate,
                low=row.interval[0],
                high=row.interval[1],
                interval_text=formats.percent(*row.interval),
                rows_low=row.rows[0],
                rows_high=row.rows[1],
            )
            for row in quality
        ],
        units=_units(quality),
        spends=spend_payloads(quality.spends),
        budget=budget_figures(budget),
    )


def _units(quality: Quality) -> UnitsPayload | None:
    privacy = quality.schema.privacy
    if privacy.unit == "row":
        return None
    (low, high), (least, most) = quality.units_above, quality.rows_lost
    return UnitsPayload(
        unit=privacy.unit,
        max_rows=privacy.max_rows,
        low=low,
        high=high,
        rows_lost_low=least,
        rows_lost_high=most if math.isfinite(most) else None,
    )
