"""`dpxplain data`: the curator looks at changed data, accepts them as a version, and goes back."""

from __future__ import annotations

import os
from pathlib import Path

BY_SEX = "SELECT sex, AVG(pay) FROM people GROUP BY sex"


def swap(folder: Path) -> bytes:
    """Every second row of people.csv is left out; returns the file as it was."""
    file = folder / "people.csv"
    before = file.read_bytes()
    header, *rows = before.splitlines(keepends=True)
    (folder / "draft").write_bytes(b"".join([header, *rows[::2]]))
    os.replace(folder / "draft", file)
    return before


def test_the_curator_looks_accepts_and_goes_back(folder, dpxplain):
    assert dpxplain("query", "--rho", "0.5", BY_SEX, "--yes").code == 0
    fresh = dpxplain("data", "status")
    assert (fresh.code, "The data have not changed since" in fresh.out) == (0, True)
    before = swap(folder)
    for command in (
        ("query", "--rho", "0.5", BY_SEX, "--yes"),
        ("query", "--rho", "0.25", BY_SEX, "--yes"),
        ("why", "Male", "Female"),
    ):
        assert dpxplain(*command).code == 2
        assert dpxplain(*command, "--json").error["code"] == "data_changed"
    assert dpxplain("budget").code == dpxplain("history").code == 0

    changed = dpxplain("data", "status")
    assert changed.code == 2
    assert "queries are refused" in " ".join((changed.out + changed.err).split())
    schema = (folder / "dpxplain.toml").read_text()
    assert dpxplain("data", "accept", "2026-11").code == 0
    assert (folder / "dpxplain.toml").read_text() == schema.replace(
        "[table]\n", '[table]\nversion = "2026-11"\n'
    )
    assert dpxplain("query", "--rho", "0.5", BY_SEX, "--yes", "--json").json["free"] is False
    assert dpxplain("budget", "--json").json["rho"]["spent"] == 1

    (folder / "people.csv").write_bytes(before)
    status = dpxplain("data", "status", "--json")
    assert (status.code, status.json["state"]) == (2, "changed")
    assert [version["fits"] for version in status.json["versions"]] == [True, False]
    back = dpxplain("data", "accept", "--json")
    assert back.json["version"] == "", "the version that these data had"
    assert dpxplain("query", "--rho", "0.5", BY_SEX, "--yes", "--json").json["free"] is True
    assert dpxplain("audit", "verify").code == 0


def test_a_version_cannot_be_given_to_other_data(folder, dpxplain):
    assert dpxplain("query", "--rho", "0.5", BY_SEX, "--yes").code == 0
    assert dpxplain("data", "accept", "a").code == 0
    swap(folder)
    refused = dpxplain("data", "accept", "a")
    assert (refused.code, "is already used for other data" in refused.err) == (2, True)
    assert dpxplain("data", "accept", "line\nbreak").code == 2
    accepted = dpxplain("data", "accept", "--json", "--by", "carol")
    assert accepted.json["version"].startswith("20"), "today's date unless one is named"
    record = dpxplain("audit", "show", "--json").json["records"][-1]
    assert (record["actor"], record["action"]) == ("carol", "data version opened")


def test_looking_before_anything_was_asked_binds_nothing(folder, dpxplain):
    assert dpxplain("budget").code == 0
    status = dpxplain("data", "status", "--json")
    assert (status.code, status.json["state"], status.json["versions"]) == (0, "new", [])
    (folder / "people.csv").unlink()
    assert dpxplain("data", "status", "--json").json["state"] == "missing"
    assert dpxplain("data", "accept").code == 2


def test_data_can_be_accepted_before_anything_was_asked(folder, dpxplain):
    assert dpxplain("ledger", "create").code == 0
    assert dpxplain("data", "accept", "2026-11").code == 0
    assert 'version = "2026-11"' in (folder / "dpxplain.toml").read_text()
    assert dpxplain("query", "--rho", "0.5", BY_SEX, "--yes").code == 0
    assert dpxplain("audit", "verify").code == 0


def test_bundled_data_are_not_given_another_version(dpxplain):
    refused = dpxplain("data", "accept", "2026-11", "-e", "adult")
    assert (refused.code, "example data sets have a single version" in refused.err) == (2, True)


def test_a_schema_keeps_its_line_ends_and_its_link(folder, dpxplain):
    schema = (folder / "dpxplain.toml").read_bytes().replace(b"\n", b"\r\n")
    (folder / "real.toml").write_bytes(schema)
    (folder / "dpxplain.toml").unlink()
    (folder / "dpxplain.toml").symlink_to("real.toml")
    assert dpxplain("query", "--rho", "0.5", BY_SEX, "--yes").code == 0
    assert dpxplain("data", "accept", "2026-11").code == 0
    assert (folder / "dpxplain.toml").is_symlink()
    edited = (folder / "real.toml").read_bytes()
    assert edited.replace(b'version = "2026-11"\r\n', b"") == schema
    assert not (folder / ".real.toml.draft").exists()
