"""Data quality and tunings as plain JSON values."""

from __future__ import annotations

import math
from typing import Any

from dpxplain.model.budget import Budget
from dpxplain.results.quality import Quality
from dpxplain.results.tuning import Tuning
from dpxplain.wire.account_payloads import budget_figures
from dpxplain.wire.shapes import QualityLine, QualityPayload, UnitsPayload
from dpxplain.words import data_quality, numbers, prices
from dpxplain.words.questions import EACH_INTERVAL


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
                misfit=f"{row.misfit}: {row.effect}",
                share=row.estimate,
                low=row.interval[0],
                high=row.interval[1],
                interval_text=numbers.percent(*row.interval),
                rows_low=row.rows[0],
                rows_high=row.rows[1],
                rows_text=numbers.interval(*row.rows),
            )
            for row in quality
        ],
        units=_units(quality),
        notes=[
            prices.QUALITY_USE,
            *data_quality.quality_limits(quality.schema),
            EACH_INTERVAL.format(numbers.level(quality.confidence)),
        ],
        spends=quality.spends,
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
        misfit=data_quality.units_misfit(privacy.max_rows),
        interval_text=numbers.percent(low, high),
        rows_text=prices.lost(*quality.rows_lost),
    )


def tuning_payload(tuning: Tuning, budget: Budget) -> dict[str, Any]:
    """A tuning as JSON, for the command line only: a server's schema is its curator's file."""
    return {
        "kind": "tuning",
        "id": tuning.id,
        "rho": tuning.rho,
        "free": tuning.free,
        "private": tuning.private,
        "confidence": tuning.confidence,
        "keep": tuning.keep,
        "bounds": tuning.rows,
        "max_rows": tuning.max_rows,
        "toml": tuning.toml(),
        "notes": list(tuning.notes),
        "spends": tuning.spends,
        "budget": budget_figures(budget),
    }
