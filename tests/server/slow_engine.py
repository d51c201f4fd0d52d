"""An engine whose passes take as long as a test wants, and whose failures quote the data."""

from __future__ import annotations

import threading
from typing import Any

from dpxplain.model.process import interruptible
from server_fixture import RunningServer

SECRET = "the true value is 4711"


class SlowEngine:
    """Like the real one, but a pass begins with waiting until it is let go or interrupted."""

    def __init__(self, real: Any, server: RunningServer) -> None:
        self.real = real
        self._server = server
        self.schema = real.schema
        self.is_live = real.is_live
        self.entered = threading.Semaphore(0)
        self.go = threading.Event()
        self.fail = False
        self.out_of_time = False  # the time limit is over as soon as a pass has begun

    def grouped(self, query: Any, subsets: Any, **options: Any) -> Any:
        if options.get("rehearsed"):
            return self.real.grouped(query, subsets, **options)
        interrupted = threading.Event()
        with interruptible(interrupted.set):
            self.entered.release()
            if self.out_of_time:
                for task in self._server.tasks():
                    task.deadline = 0.0
            for _ in range(12_000):  # two minutes: only a broken test waits so long
                if self.go.wait(0.01):
                    break
                if interrupted.is_set():
                    raise RuntimeError(SECRET)
        if self.fail:
            raise RuntimeError(SECRET)
        return self.real.grouped(query, subsets)

    def close(self) -> None:
        self.real.close()


def slow_down(server: RunningServer) -> SlowEngine:
    dataset = server.state.datasets.get("people")
    dataset.engine = SlowEngine(dataset.engine, server)
    engine: SlowEngine = dataset.engine
    return engine
