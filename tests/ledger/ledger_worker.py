"""Other processes of the ledger tests: `ledger_worker.py attempt ADDRESS`, `upgrade ADDRESS` or `nursery`.

A nursery starts a process for each address it reads, one after the other: those begin with everything
imported, so that many can be killed in a short time.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing

from dpxplain.errors import BudgetExhausted
from dpxplain.ledger.ledger import SQLLedger, open_ledger
from dpxplain.ledger.protocol import Ledger
from dpxplain.model.charge import Charge, Entry, Request, Spend

ALLOWED = 40
RHO = 0.1
LIMIT = 4.0  # = ALLOWED * RHO
LOOP_RHO = 0.0025  # about what 25 short lives spend: the last of them meet the limit


def say(*words: object) -> None:
    """One line in one write, which a kill cannot cut in two."""
    os.write(sys.stdout.fileno(), (" ".join(map(str, words)) + "\n").encode())


def charge(ledger: Ledger, rho: float) -> Entry:
    return ledger.reserve("adult", Charge("query", "k", Request("SELECT"), rho, (Spend("gaussian", rho),)))


def attempt(ledger: SQLLedger) -> None:
    """Try twenty charges, as an analyst who may spend the whole limit, and say which were made."""
    ledger.open_dataset("adult", LIMIT, 1e-6)
    account = ledger.account(f"analyst {os.getpid()}", default_limit=LIMIT)
    for _ in range(20):
        try:
            entry = charge(account, RHO)
        except BudgetExhausted:
            continue
        account.release(entry.row, "{}")
        say(entry.row)


def loop(ledger: Ledger) -> None:
    """Charge and release until killed, saying what was done after it was done."""
    ledger.open_dataset("adult", LIMIT, 1e-6)
    while True:
        try:
            entry = charge(ledger, LOOP_RHO)
        except BudgetExhausted:
            say("exhausted")
            continue
        say("reserved", entry.id)
        ledger.release(entry.row, f'"answer {entry.id}"')
        say("released", entry.id)


def nurse() -> None:
    """Let a child loop at each address read; say when it is dead."""
    import dpxplain.ledger.postgres  # noqa: F401  # otherwise imported only by those who need it

    say("ready")
    while address := sys.stdin.readline().strip():
        child = os.fork()
        if child == 0:
            say("born", os.getpid())
            loop(open_ledger(address))
        os.waitpid(child, 0)
        say("dead")


def run_attempts(address: str) -> None:
    """Let four processes make, open and charge the same ledger from nothing, together."""
    if address.startswith("postgresql:"):
        import dpxplain.ledger.postgres  # noqa: F401  # once, before the processes part
    start, stop = os.pipe()
    children = []
    for _ in range(4):
        children.append(os.fork())
        if children[-1] == 0:
            os.close(stop)
            os.read(start, 1)  # returns when the parent closes the other end
            with closing(open_ledger(address)) as ledger:
                attempt(ledger)
            os._exit(0)
    os.close(stop)
    if any(os.waitpid(child, 0)[1] for child in children):
        sys.exit(1)


def upgrade_and_die(address: str) -> None:
    """Be killed in the second step of an upgrade."""
    from next_formats import add_colour, add_moods_and_die, later_program

    with later_program(add_colour, add_moods_and_die):
        open_ledger(address)


if __name__ == "__main__":
    if sys.argv[1] == "nursery":
        nurse()
    elif sys.argv[1] == "upgrade":
        upgrade_and_die(sys.argv[2])
    else:
        run_attempts(sys.argv[2])
