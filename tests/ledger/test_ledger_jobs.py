"""Jobs: any process can tell how far one is, and ask it to stop."""

from __future__ import annotations

from datetime import timedelta

import pytest
from ledger_contract import reserve

from dpxplain.errors import BadRequest
from dpxplain.ledger import jobs
from dpxplain.ledger.ledger import open_ledger


def create(ledger, id="job"):
    ledger.jobs.create(id, "adult", "ann", "explain", {"k": 5})
    return ledger.jobs.get(id)


def test_job_tells_how_far_it_is(ledger):
    job = create(ledger)
    assert (job.id, job.dataset, job.owner, job.kind, job.request) == (
        "job",
        "adult",
        "ann",
        "explain",
        {"k": 5},
    )
    assert (job.state, job.stage, job.error, job.entry, job.cancel_asked) == ("queued", "", None, None, False)
    ledger.jobs.update("job", "running", "Scoring predicates")
    assert (ledger.jobs.get("job").state, ledger.jobs.get("job").stage) == ("running", "Scoring predicates")
    entry = reserve(ledger, 0.1)
    ledger.jobs.update("job", "done", "", entry=entry)
    assert (ledger.jobs.get("job").state, ledger.jobs.get("job").entry) == ("done", entry)


def test_failed_job_keeps_its_error(ledger):
    create(ledger)
    error = {"code": "bad_request", "message": "no", "remedy": "", "position": None}
    ledger.jobs.update("job", "failed", "", error=error)
    assert ledger.jobs.get("job").error == error


def test_finished_job_stays_finished(ledger):
    create(ledger)
    ledger.jobs.update("job", "cancelled", "")
    ledger.jobs.update("job", "running", "still at it")
    ledger.jobs.ask_cancel("job")
    job = ledger.jobs.get("job")
    assert (job.state, job.stage, job.cancel_asked) == ("cancelled", "", False)


def test_cancellation_is_seen_by_the_process_that_works(address):
    ledger, other = open_ledger(address), open_ledger(address)
    create(ledger)
    assert ledger.jobs.heartbeat("job") is False
    other.jobs.ask_cancel("job")
    assert ledger.jobs.heartbeat("job") is True
    assert other.jobs.get("job").state == "queued"
    ledger.close()
    other.close()


def test_silent_job_is_lost_until_it_is_heard_again(ledger, monkeypatch):
    create(ledger)
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "JOB_SILENCE", timedelta(0))
        assert ledger.jobs.get("job").state == "lost"
    assert ledger.jobs.get("job").state == "queued"
    ledger.jobs.update("job", "done", "")
    monkeypatch.setattr(jobs, "JOB_SILENCE", timedelta(0))
    assert ledger.jobs.get("job").state == "done"


def test_unknown_job_and_unknown_state_are_refused(ledger):
    with pytest.raises(BadRequest, match="'nobody'"):
        ledger.jobs.get("nobody")
    create(ledger)
    with pytest.raises(BadRequest, match="'asleep'"):
        ledger.jobs.update("job", "asleep", "")


def test_jobs_leave_the_audit_log_alone(ledger):
    create(ledger)
    ledger.jobs.update("job", "done", "")
    assert len(ledger.audit()) == 1
    assert ledger.verify_audit().intact


def test_of_an_owner_only_the_newest_ended_jobs_are_kept_and_every_one_that_runs(ledger, monkeypatch):
    monkeypatch.setattr(jobs, "MOST_ENDED", 2)
    create(ledger, "running")
    ledger.jobs.create("of bob", "adult", "bob", "explain", {})
    ledger.jobs.update("of bob", "done", "")
    for number in range(4):
        create(ledger, f"ended {number}")
        ledger.jobs.update(f"ended {number}", "done", "")
    create(ledger, "new")
    assert [job.id for job in ledger.jobs.of_owner("ann", "adult")] == [
        "new",
        "ended 3",
        "ended 2",
        "running",
    ]
    assert ledger.jobs.get("of bob").state == "done"


def test_a_list_of_jobs_with_long_requests_is_short(ledger, monkeypatch):
    for number in range(5):
        create(ledger, f"job {number}")  # {"k":5} has seven characters
    for characters, listed in ((25, ["job 4", "job 3", "job 2"]), (1, ["job 4"])):
        monkeypatch.setattr(jobs, "_MOST_LISTED", characters)
        assert [job.id for job in ledger.jobs.of_owner("ann", "adult")] == listed
