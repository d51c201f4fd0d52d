"""Every block of docs/operations.md is carried out as printed, in order, on a throwaway machine with systemd.

Between blocks the test checks what they claim: the proxy's headers, revoked tokens, a restart after a kill.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
import yaml
from throwaway_machine import Machine, obstacle, throwaway_machine

from printed_blocks import ROOT, Block, blocks_of

BLOCKS = blocks_of(ROOT / "docs/operations.md")
INSTEAD = "sh instead"
CURL = "curl -sS --cacert /etc/dpxplain/tls/certificate.pem"
STATUS = f"{CURL} -o /dev/null -w '%{{http_code}}'"
ME = "https://data.example.org/api/v1/me"


def carry_out(machine: Machine, block: Block) -> str:
    """What the block prints; it must not fail."""
    outcome = machine.run(block.text)
    journal = machine.run("journalctl --no-pager -n 50").stdout if outcome.returncode else ""
    assert outcome.returncode == 0, f"{block.place}\n{outcome.stdout}\n{outcome.stderr}\n{journal}"
    return outcome.stdout


def carry_out_and_return(machine: Machine, block: Block) -> None:
    """Carries out what the page offers as another way, then puts the configuration back as it was."""
    machine.output("cp --archive /etc/dpxplain /run/before")
    carry_out(machine, block)
    machine.output(
        "systemctl disable --now dpxplain && rm -r /etc/dpxplain && mv /run/before /etc/dpxplain && "
        "systemctl enable --now nginx dpxplain@1 dpxplain@2 && "
        "curl -sSf --retry 60 --retry-delay 1 --retry-connrefused http://127.0.0.1:8765/api/v1/health"
    )


def account(machine: Machine, token: str) -> dict[str, str | None]:
    told: dict[str, str | None] = json.loads(
        machine.output(f'{CURL} -H "Authorization: Bearer {token}" {ME}')
    )
    return told


def check_service(machine: Machine) -> None:
    """As another user, with nothing of root's, the service stops in time and starts again."""
    [process] = machine.output("systemctl show --property MainPID --value dpxplain").splitlines()
    assert machine.output(f"stat --format %U /proc/{process}") == "dpxplain"
    assert machine.output(f"grep CapBnd /proc/{process}/status").split()[1] == "0" * 16
    machine.output("systemctl restart dpxplain")
    assert machine.output("systemctl show --property Result --value dpxplain") == "success"
    assert "The server has stopped" in machine.output("journalctl --no-pager --unit dpxplain")


def check_proxy(machine: Machine) -> None:
    """Wrong names are refused, clients cannot write their own address, and plain HTTP leads to TLS."""
    assert machine.output(f"{STATUS} http://data.example.org/") == "308"
    assert machine.output(f"{STATUS} -H 'Host: evil.example' -k https://127.0.0.1/") == "400"
    headers = machine.output(f"{CURL} --head https://data.example.org/")
    assert "strict-transport-security" in headers.lower()
    # A client that names a new address each time is counted as one: it runs into the limit of 60 a minute.
    guess = f"{STATUS} -H 'Authorization: Bearer dpx_0_0' -H \"X-Forwarded-For: 10.0.0.$i\" {ME}"
    script = f"for i in $(seq 140); do {guess}; echo; done | sort | uniq --count"
    assert "429" in machine.output(script)
    machine.output("systemctl restart dpxplain@1 dpxplain@2")  # forgets the guesses
    machine.output(
        "curl -sSf --retry 60 --retry-delay 1 --retry-connrefused http://127.0.0.1:8765/api/v1/health"
    )


def check_rotation(machine: Machine) -> None:
    """The old token lets nobody in any more, the new one does."""
    new = machine.output("cat /root/ann.token")
    assert account(machine, new)["name"] == "ann"
    assert account(machine, machine.output("cat /root/ann.old"))["name"] is None


def crash(machine: Machine) -> None:
    """Kills a process that serves, as a lack of memory would, and waits until systemd has noticed."""
    process = machine.output("systemctl show --property MainPID --value dpxplain@1")
    machine.output(f"kill -9 {process}")
    script = f"""until [ "$(systemctl show --property NRestarts --value dpxplain@1)" = 1 ]; do sleep 0.1; done
        until systemctl is-active --quiet dpxplain@1; do sleep 0.1; done; test ! -e /proc/{process}"""
    machine.output(script)


def spent(machine: Machine) -> float:
    """Of the budget of the data set, by everybody."""
    metrics = machine.output(
        'curl -sSf -H "Authorization: Bearer $(cat /root/carol.token)" http://127.0.0.1:8765/api/v1/metrics'
    )
    [value] = re.findall(r'(?m)^dpxplain_rho_spent{dataset="flights"} (\S+)$', metrics)
    return float(value)


def ask(rho: float) -> Callable[[Machine], object]:
    """What makes a charge that no backup holds."""
    query = f'--rho {rho} "SELECT origin, AVG(arr_delay) FROM flights GROUP BY origin"'
    script = f"dpxplain query --data https://data.example.org/flights {query}"
    return lambda machine: machine.output(f"DPXPLAIN_TOKEN=$(cat /root/ann.token) {script}")


def check_spent(rho: float) -> Callable[[Machine], object]:
    """Budget does not come back."""

    def check(machine: Machine) -> None:
        assert spent(machine) == pytest.approx(rho)

    return check


def check_backup(machine: Machine) -> None:
    """It is for its owner only, and verifies."""
    [backup] = machine.output("ls /var/backups/dpxplain/ledger-*.sqlite").splitlines()
    assert machine.output(f"stat --format '%U %a' {backup}") == "dpxplain 600"
    machine.output(f"runuser -u dpxplain -- dpxplain audit verify --ledger {backup}")


BEFORE: dict[str, Callable[[Machine], object]] = {
    "Rotation": lambda machine: machine.output("cp /root/ann.token /root/ann.old"),
    "Restoring one": ask(0.2),
    "Roll-back": ask(0.3),
    "After a crash": crash,
}
AFTER: dict[str, Callable[[Machine], object]] = {
    "At a reverse proxy": check_proxy,
    "Rotation": check_rotation,
    "Backups": check_backup,
    "Restoring one": check_spent(0.1 + 0.2),
    "Upgrade": check_spent(0.1 + 0.2),
    "Roll-back": check_spent(0.1 + 0.2 + 0.3),
}


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))
def test_every_block_is_carried_out_as_printed() -> None:
    assert {*BEFORE, *AFTER} <= {block.heading for block in BLOCKS}
    served_once = False
    with throwaway_machine() as machine:
        for number, block in enumerate(BLOCKS):
            if block.heading != BLOCKS[number - 1].heading:
                BEFORE.get(block.heading, lambda _: None)(machine)
            if block.language == "sh":
                carry_out(machine, block)
            elif block.language == INSTEAD:
                carry_out_and_return(machine, block)
            if "enable --now dpxplain\n" in block.text and not served_once:
                served_once = True
                check_service(machine)
            if block.heading != BLOCKS[(number + 1) % len(BLOCKS)].heading:
                AFTER.get(block.heading, lambda _: None)(machine)


def test_prometheus_asks_where_the_server_has_its_metrics() -> None:
    [block] = [block for block in BLOCKS if block.language == "yaml"]
    [scrape] = yaml.safe_load(block.text)["scrape_configs"]
    assert scrape["metrics_path"] == "/api/v1/metrics"
    assert {block.language for block in BLOCKS} == {"sh", INSTEAD, "yaml"}
