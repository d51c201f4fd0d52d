"""To try DPXPlain out: `dpxplain demo`, the guided tour on bundled data; `sample`, made-up flights; and
`experiment`, the paper's tables and figures.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from dpxplain.cli import options as o
from dpxplain.cli.screen import OUT, Progress, amount, note, price_in_words, program, show, show_json, suggest
from dpxplain.errors import BadRequest

if TYPE_CHECKING:
    from dpxplain.model.charge import Budget

# -- Tour and sample ---------------------------------------------------------------------------------------

SQL = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
GROUPS = ("Married-civ-spouse", "Never-married")
OTHERS = ("Married-civ-spouse", "Divorced")
REPORT = "dpxplain-demo.html"
_PAUSE_SECONDS = 0.7


def demo(
    report: Annotated[
        str, typer.Option("--report", metavar="FILE.html", help="Where the report goes.")
    ] = REPORT,
    rho: Annotated[float, typer.Option("--rho", help="Budget of the query.")] = 0.1,
    prepare_rho: Annotated[float, typer.Option("--prepare-rho", help="Budget of all explanations.")] = 0.02,
    k: o.K = 5,
    fast: Annotated[bool, typer.Option("--fast", help="Do not pause between the steps.")] = False,
    as_json: o.Json = False,
) -> None:
    """A tour of all phases on bundled census data, with a budget of its own.

    \b
    Example:
      [cyan]dpxplain demo --report why.html[/cyan]
    """
    from dpxplain.cli.ask_commands import check_writable
    from dpxplain.cli.workspace import one_aggregate
    from dpxplain.wire.payloads import answer_payload, explanation_payload, prepared_payload

    check_writable(Path(report))
    tour, progress = _Tour(silent=as_json, pauses=not fast), Progress()
    tour.open()
    with progress.running("Opening the Adult data"):
        from dpxplain.session import example

        session = example("adult", progress=progress)
    with session:
        tour.step("1  Ask", "How does the share of high earners differ by marital status? Asked in SQL:")
        tour.quote(f'dpxplain query -e adult --rho {amount(rho)} "{SQL}"')
        tour.say(price_in_words(session.preview(SQL, rho).price))
        with progress.running("Answering"):
            answer = one_aggregate(session.query(SQL, rho), None)
        tour.result(answer)
        tour.say(
            "Each value carries random noise that hides every person. "
            "The true value lies inside the interval 19 times out of 20."
        )

        tour.step(
            "2  Is it real?", "Married people are high earners more often. Is that real, or only noise?"
        )
        tour.quote(f"dpxplain why -e adult {GROUPS[0]} {GROUPS[1]}")
        tour.say("Price: free. The question uses only the answer above.")
        question = answer.why(*GROUPS)
        tour.result(question)

        tour.step("3  Prepare", "Pay once, and every explanation of this answer is free:")
        tour.quote(f"dpxplain prepare -e adult --rho {amount(prepare_rho)}")
        tour.say(price_in_words(answer.preview_prepare(prepare_rho).price))
        with progress.running("Preparing"):
            prepared = answer.prepare(prepare_rho)
        tour.result(prepared)

        tour.step("4  Explain", "Which people are behind the difference?")
        tour.quote(f"dpxplain explain -e adult --k {k} {GROUPS[0]} {GROUPS[1]}")
        tour.say(price_in_words(question.preview(k=k).price))
        with progress.running("Explaining"):
            table = question.explain(k=k)
        tour.result(table)

        tour.step("5  Ask again", "Explain another pair of groups, as often as you like:")
        tour.quote(f"dpxplain explain -e adult --k 3 {OTHERS[0]} {OTHERS[1]}")
        another = answer.why(*OTHERS)
        tour.say(price_in_words(another.preview(k=3).price))
        second = another.explain(k=3)
        tour.result(second)
        with progress.running("Writing the report"):
            written = table.save(report)
        if as_json:
            budget = session.budget
            show_json(
                {
                    "kind": "demo",
                    "answer": answer_payload(answer, budget),
                    "prepared": prepared_payload(prepared, answer, budget),
                    "explanation": explanation_payload(table, budget),
                    "another": explanation_payload(second, budget),
                    "report": str(written),
                }
            )
        tour.close(session.budget, written)


class _Tour:
    """Prints the narration: indented results, short sentences, a pause between the steps."""

    def __init__(self, *, silent: bool, pauses: bool) -> None:
        self._silent = silent
        self._pauses = pauses and OUT.is_terminal and not silent

    def open(self) -> None:
        self._rule("DPXPlain: private answers that explain themselves")
        self.say(
            "The data: 48,842 people from the 1994 US census (Adult, UCI). You are an analyst: you may ask "
            "about them, but you never see a row. Each answer costs a part of a privacy budget, ρ = 5 in all."
        )

    def step(self, title: str, introduction: str) -> None:
        if self._pauses:
            time.sleep(_PAUSE_SECONDS)
        self._rule(title)
        self.say(introduction)

    def say(self, text: str) -> None:
        if not self._silent:
            OUT.print(Padding(Text(text), (0, 0, 1, 0)))

    def quote(self, code: str) -> None:
        if not self._silent:
            OUT.print(Padding(Text(code, style="cyan"), (0, 0, 1, 4)))

    def result(self, result: object) -> None:
        if not self._silent:
            show(result)
            OUT.print()

    def close(self, budget: Budget, report: Path) -> None:
        from dpxplain.privacy.accounting import epsilons
        from dpxplain.words.numbers import at_most
        from dpxplain.words.prices import delta_text

        if self._silent:
            return
        self._rule("What it cost")
        self.say(
            f"ρ = {amount(budget.spent)} of {amount(budget.limit)}, which is ε = "
            f"{at_most(epsilons(budget).spent)} at {delta_text(budget.delta)}. Every further explanation "
            "of this answer is free."
        )
        OUT.print(Text.assemble(("Report  ", "bold"), str(report), ("   open it in a browser", "dim")))
        OUT.print()
        self._rule("Your turn")
        sql = "SELECT sex, COUNT(*) FROM adult GROUP BY sex"
        for command, meaning in (
            (f'{program()} query -e adult --rho 0.1 "{sql}"', "ask something else"),
            (f"{program()} why -e adult Male Female", "is it real?"),
            (f"{program()} prepare -e adult --rho 0.02", "pay once"),
            (f"{program()} explain -e adult Male Female", "explain it for free"),
            (f"{program()} schema init YOUR_DATA.parquet", "use your own data"),
            ("import dpxplain as dpx; session = dpx.example('adult')", "the same in Python"),
        ):
            OUT.print(Text(f"# {meaning}", style="dim"))
            OUT.print(Text(command, style="cyan"), soft_wrap=True)

    def _rule(self, title: str) -> None:
        if not self._silent:
            OUT.print(Rule(Text(title, style="bold"), align="left", style="cyan"))


def sample(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write: a name that ends in .csv or .parquet.")
    ] = Path("flights.csv"),
    rows: Annotated[int, typer.Option("--rows", min=1, max=10_000_000, help="How many flights.")] = 50_000,
    as_json: o.Json = False,
) -> None:
    """Write a file of made-up flights, the same each time, to try DPXPlain on.

    \b
    Example:
      [cyan]dpxplain sample flights.csv[/cyan]
    """
    from dpxplain.datasets import write_flights

    write_flights(file, rows)
    if as_json:
        show_json({"kind": "sample", "written": str(file), "rows": rows})
        return
    note(f"Wrote {rows:,} made-up flights to {file}.")
    suggest("Next, declare what is public about them:", "schema", "init", str(file))


# -- Experiments -------------------------------------------------------------------------------------------


def experiment(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Experiments by name, 'all', or 'list'.")
    ],
    runs: Annotated[
        int | None, typer.Option("--runs", min=1, help="Repetitions; default: 10, as in the paper.")
    ] = None,
    minutes: Annotated[
        float,
        typer.Option("--minutes", min=0.1, max=600.0, help="Start no new part after this many minutes."),
    ] = 55.0,
    short: Annotated[
        bool, typer.Option("--short", help="Small tables and few repetitions, for a quick look.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="The folder for CSVs, charts and report.html."),
    ] = None,
    cps: Annotated[
        Path | None, typer.Option("--cps", metavar="FILE", help="A real IPUMS-CPS extract (CSV).")
    ] = None,
    trips: Annotated[
        list[Path] | None,
        typer.Option("--trips", metavar="FILE", help="Real TLC trip records (parquet); repeatable."),
    ] = None,
    zones: Annotated[
        Path | None, typer.Option("--zones", metavar="FILE", help="The TLC zone lookup, with --trips.")
    ] = None,
    as_json: o.Json = False,
) -> int:
    """Reproduce the paper's tables and figures, with our results beside them. Works only in a Git clone.

    Noise comes from seeds, and tables are generated or public, so it spends no budget. It keeps finished
    parts: an interrupted run resumes. docs/experiments.md has the results.

    \b
    Example:
      [cyan]dpxplain experiment list[/cyan]
      [cyan]dpxplain experiment precision --runs 20[/cyan]
    """
    root = _clone()
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    words = [] if names == ["all"] else list(names)
    for option, value in (
        ("--runs", runs),
        ("--minutes", minutes),
        ("--out", out),
        ("--cps", cps),
        ("--zones", zones),
    ):
        words += [] if value is None else [option, str(value)]
    words += ["--trips", *map(str, trips)] if trips else []
    words += ["--short"] if short else []
    words += ["--json"] if as_json else []
    try:
        outcome: int = import_module("experiments.__main__").main(words)
    except ModuleNotFoundError as missing:
        raise BadRequest(
            f"The experiments need the package {missing.name!r}.",
            remedy="In the clone: pip install --constraint constraints.txt '.[experiments]'",
        ) from None
    return outcome


def _clone() -> Path:
    """The repository that this package runs from, or the one that contains the current folder."""
    here = Path.cwd()
    for root in (Path(__file__).resolve().parents[3], here, *here.parents):
        if (root / "experiments" / "__main__.py").is_file() and _is_ours(root / "pyproject.toml"):
            return root
    raise BadRequest(
        "The installed package does not include the experiments. They need a clone of the repository.",
        remedy="Run the command inside a clone, or run make experiments there.",
    )


def _is_ours(project: Path) -> bool:
    return project.is_file() and 'name = "dpxplain"' in project.read_text(encoding="utf-8", errors="replace")
