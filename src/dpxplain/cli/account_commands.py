"""What was spent: the budget and its history."""

from __future__ import annotations

from dpxplain.cli import options as o
from dpxplain.cli.screen import OUT, Format, note, present, show, show_json
from dpxplain.cli.workspace import DEFAULT_WORKSPACE, Place


def budget(
    data: o.Data = None,
    schema: o.SchemaFile = None,
    example: o.Example = None,
    workspace: o.Workspace = DEFAULT_WORKSPACE,
    as_json: o.Json = False,
) -> None:
    """How much privacy budget the data set has, in ρ and in (ε, δ).

    \b
    Example:
      [cyan]dpxplain budget --example adult[/cyan]
    """
    from dpxplain.wire.payloads import budget_payload

    with Place(data, schema, example, workspace).recalling() as session:
        held = session.budget
        present(held, lambda: budget_payload(held), Format.JSON if as_json else Format.TABLE)


def history(
    data: o.Data = None,
    schema: o.SchemaFile = None,
    example: o.Example = None,
    workspace: o.Workspace = DEFAULT_WORKSPACE,
    as_json: o.Json = False,
) -> None:
    """Everything asked so far, its price and the running total.

    \b
    Example:
      [cyan]dpxplain history --json[/cyan]
    """
    from dpxplain.wire.payloads import history_payload

    with Place(data, schema, example, workspace).recalling() as session:
        entries = session.history
        if as_json:
            show_json(history_payload(entries))
            return
        if not entries:
            note("Nothing was asked yet.")
            return
        from dpxplain.render.terminal import history_table

        OUT.print(history_table(entries))
        show(session.budget)
