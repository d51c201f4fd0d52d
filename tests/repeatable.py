"""Hooks that make tests repeatable; CONTRIBUTING.md tells how to use the marks.

- `OpenDPNoise` and `VectorisedNoise` draw from one seed, which starts anew with every test and every shared
  fixture. Privacy maps and costs stay OpenDP's. A test marked `draws` gets the real samplers, which cannot be
  seeded.
- Hypothesis tries the same examples each time; `--hypothesis-profile=explore` lets it look for others.
- A test that starts a process is marked `process`, one that calls OpenDP's own samplers `draws`; without the
  mark it fails.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers
from opendp.mod import Measurement

from dpxplain.privacy.mechanisms.noise import OpenDPNoise, SeededNoise, VectorisedNoise

SEED = 20261116
_DRAWING = {"gaussian", "top_k"}

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("explore", deadline=None, database=None, print_blob=True)
hypothesis.settings.load_profile("repeatable")

_constants_of_imported_modules = providers._get_local_constants


def _no_constants_if_repeatable() -> providers.Constants:
    """Hypothesis tries constants of the modules that happen to be imported, which differ between workers."""
    repeatable = hypothesis.settings.default.derandomize
    return providers._local_constants if repeatable else _constants_of_imported_modules()


providers._get_local_constants = _no_constants_if_repeatable


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
        self.count = 0
        sys.addaudithook(self._note)

    def _note(self, event: str, _arguments: Any) -> None:
        self.count += event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty")


class _OpenDPDraws:
    """Counts the calls of OpenDP's samplers."""

    def __init__(self) -> None:
        self.count = 0
        sample = Measurement.__call__

        def noted(measurement: Measurement, *arguments: Any) -> Any:
            self.count += 1
            return sample(measurement, *arguments)

        Measurement.__call__ = noted


_noise = _Noise()
_counters = {"process": _Processes(), "draws": _OpenDPDraws()}
_MISSING = {
    "process": "This test starts a process: mark it with @pytest.mark.process.",
    "draws": "This test draws noise that cannot be seeded: mark it with @pytest.mark.draws.",
}


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, Any, Any]:
    """A shared fixture is the same whichever test comes first, and so is that test."""
    if fixturedef.scope == "function":
        return (yield)
    real, counts = _noise.real, {mark: counter.count for mark, counter in _counters.items()}
    _noise.real = False
    _noise.restart()
    try:
        return (yield)
    finally:
        _noise.real = real
        _noise.restart()
        for mark, counter in _counters.items():
            counter.count = counts[mark]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    _noise.real = item.get_closest_marker("draws") is not None
    _noise.restart()
    for counter in _counters.values():
        counter.count = 0
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Runs after the test itself."""
    for mark, counter in _counters.items():
        if counter.count and not item.get_closest_marker(mark):
            pytest.fail(_MISSING[mark], pytrace=False)
