"""Hooks that make tests repeatable; CONTRIBUTING.md tells how to use the marks.

- `OpenDPNoise` and `VectorisedNoise` draw from one seed, which starts anew with every test and every shared
  fixture. Privacy maps and costs stay OpenDP's. A test marked `draws` gets the real samplers, which cannot be
  seeded.
- Hypothesis tries the same examples each time; `--hypothesis-profile=explore` lets it look for others.
- A test that starts a process is marked `process`; one that is not fails.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import hypothesis
import pytest

from dpxplain.privacy.mechanisms.noise import OpenDPNoise, SeededNoise, VectorisedNoise

SEED = 20261116
_DRAWING = {"gaussian", "pick", "below"}

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("explore", deadline=None, database=None, print_blob=True)
hypothesis.settings.load_profile("repeatable")


class _Noise:
    """What the private sources draw from: a seeded generator, or their own samplers while `real`."""

    def __init__(self) -> None:
        self.real = False
        self.seeded = SeededNoise(SEED)
        for kind in (OpenDPNoise, VectorisedNoise):
            for name in _DRAWING & vars(kind).keys():
                setattr(kind, name, self._switched(name, vars(kind)[name]))

    def restart(self) -> None:
        self.seeded = SeededNoise(SEED)

    def _switched(self, name: str, real_draw: Any) -> Any:
        def draw(source: OpenDPNoise, *arguments: Any) -> Any:
            return real_draw(source, *arguments) if self.real else getattr(self.seeded, name)(*arguments)

        return draw


class _Processes:
    """Counts the processes that were started."""

    def __init__(self) -> None:
        self.started = 0
        sys.addaudithook(self._count)

    def _count(self, event: str, _arguments: Any) -> None:
        self.started += event in ("subprocess.Popen", "os.posix_spawn", "os.fork")


_noise = _Noise()
_processes = _Processes()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, Any, Any]:
    """A shared fixture is the same whichever test comes first, and so is that test."""
    if fixturedef.scope == "function":
        return (yield)
    real, started = _noise.real, _processes.started
    _noise.real = False
    _noise.restart()
    try:
        return (yield)
    finally:
        _noise.real = real
        _noise.restart()
        _processes.started = started


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    _noise.real = item.get_closest_marker("draws") is not None
    _noise.restart()
    _processes.started = 0
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Runs after the test itself."""
    if _processes.started and not item.get_closest_marker("process"):
        pytest.fail("This test starts a process: mark it with @pytest.mark.process.", pytrace=False)
