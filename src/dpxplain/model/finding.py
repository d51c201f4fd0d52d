"""What a result says in a few words, which every interface shows first."""

from __future__ import annotations

from dataclasses import dataclass

from dpxplain.model.public import public


@public(
    "FindingPayload",
    "headline support caveat notes",
    description="The answer first: what every face shows before anything else.",
)
@dataclass(frozen=True)
class Finding:
    """A headline, what supports it, the one caveat that matters most, and notes on request.

    Prints as headline and support:

    >>> print(Finding("Mostly storms.", "Without them the gap is gone.", "About these rows only."))
    Mostly storms. Without them the gap is gone.
    """

    headline: str  # one sentence of at most 25 words
    support: str = ""  # at most two sentences
    caveat: str = ""  # one line of at most 15 words
    notes: tuple[str, ...] = ()  # everything else

    def __str__(self) -> str:
        return f"{self.headline} {self.support}".rstrip()
