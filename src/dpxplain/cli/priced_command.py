"""What every command that costs something does: price, approval, the request itself, and its result."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from dpxplain.cli import options as o
from dpxplain.cli.screen import ERR, Declined, Format, Progress, emit, is_json, present, price_in_words
from dpxplain.cli.workspace import Place

if TYPE_CHECKING:
    from dpxplain.results.preview import Price
    from dpxplain.session import Session


@dataclass(frozen=True)
class PricedCommand:
    """Where a command that costs something runs, and what the user chose about its price and its output."""

    stage: str  # what the command does, for the spinner: "Answering"
    place: Place
    approval: o.Approval
    output: o.OutputFormat
    curator: bool = False
    always_opens_data: bool = False  # even to show a stored result

    def run(
        self,
        *,
        preview: Callable[[Session], Any],
        ask: Callable[[Session, Price], Any],
        payload: Callable[..., object],
        finish: Callable[[Any, Progress], object] = lambda _result, _progress: None,
    ) -> None:
        """Shows the price and asks for approval, then asks the request and prints its result.

        `ask` gets the price that was shown. `payload` makes JSON of the result, the budget and, for a
        curator, the true values. `finish` is called last, while the session is open.
        """
        progress, output = Progress(), self.output
        with self.place.read_only_session() as session:
            previewed = preview(session)
        if self.approval.dry_run:
            from dpxplain.wire.payloads import preview_payload

            present(previewed, lambda: preview_payload(previewed), output.form, notes=output.notes)
            return
        _approve(previewed, yes=self.approval.yes, format=output.form)
        with self._session(previewed.price, progress) as session:
            with progress.running(self.stage):
                result = ask(session, previewed.price)
                truths = [result.truth()] if self.curator else []
            present(
                result,
                lambda: payload(result, session.budget, *truths),
                output.form,
                *truths,
                notes=output.notes,
            )
            finish(result, progress)

    def _session(self, price: Price, progress: Progress) -> AbstractContextManager[Session]:
        """A session that can measure, or a read-only one if the result is stored."""
        if price.free and not self.curator and not self.always_opens_data:
            return self.place.read_only_session()
        return self.place.measuring_session(progress, curator=self.curator)


def _approve(preview: Any, *, yes: bool, format: Format) -> None:
    """Prints the price, in ρ and for discoveries in δ too, and asks for confirmation at a terminal.

    The preview's forecast says what the price will buy; a stored result needs none.

    For a request beyond the budget it does not ask, because the ledger refuses the request.
    """
    price: Price = preview.price
    delta: float | None = getattr(preview, "delta", None)
    forecast = "" if price.free else getattr(preview, "forecast", "")
    words = price_in_words(price)
    if delta is not None and not price.free:
        from dpxplain.words.prices import delta_text

        words += f" It also takes {delta_text(delta)}."
    if is_json():
        remaining = {"remaining": price.remaining, "remaining_after": price.remaining_after}
        further: dict[str, object] = {} if delta is None else {"delta": delta}
        further |= {"forecast": forecast} if forecast else {}
        amounts = {"rho": price.rho, "epsilon": price.epsilon}
        emit("price", message=words, **amounts, free=price.free, **remaining, **further)
        return
    ERR.print(words)
    if forecast:
        ERR.print(forecast)
    settled = price.free or not price.affordable or yes or format is Format.JSON
    if settled or not (sys.stdin.isatty() and ERR.is_terminal):
        return
    if not typer.confirm("Spent budget never comes back. Go ahead?", err=True):
        raise Declined
