"""A real Spark for tests: a session with a JVM of its own, and a standalone cluster with a Connect server.

Everything listens on 127.0.0.1 only and is ended with the tests. Without Java or PySpark the tests fail and
say what to install.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WAIT = 180  # seconds until a broken start is given up
# Compiled quickly rather than well, which for small tables is several times faster.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dio.netty.tryReflectionSetAccessible=true"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "800m",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
}


def _home() -> Path:
    """The folder of Spark's programs, in PySpark."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pyspark
    except ImportError:
        pytest.fail("These tests need PySpark: pip install 'dpxplain[spark]'.", pytrace=False)
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.fail(
            "These tests need Java 17 or 21 for Spark: install the package openjdk-17-jre-headless.",
            pytrace=False,
        )
    return Path(pyspark.__file__).parent


def _environment(folder: Path) -> dict[str, str]:
    """Of Spark's processes: loopback only, one folder for all files, next to no log."""
    log = folder / "log4j2.properties"
    log.write_text("rootLogger.level = off\n", encoding="utf-8")
    return os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_CONF_DIR": str(folder),
        "SPARK_DAEMON_MEMORY": "700m",  # of the Connect server too
        "SPARK_DAEMON_JAVA_OPTS": _JAVA,
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }


@contextmanager
def _temporary_environment(values: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    """`local[2]`: driver and executor in one JVM, which ends with the tests."""
    _home()
    with tempfile.TemporaryDirectory(prefix="dpxplain-spark-") as name:
        folder = Path(name)
        with _temporary_environment(_environment(folder)):
            from pyspark.sql import SparkSession

            builder = SparkSession.builder.master("local[2]").appName("dpxplain-tests")
            for key, value in (SETTINGS | {"spark.sql.warehouse.dir": str(folder / "tables")}).items():
                builder = builder.config(key, value)
            session = builder.getOrCreate()
        try:
            yield session
        finally:
            gateway = session.sparkContext._gateway
            session.stop()
            gateway.shutdown()
            gateway.proc.stdin.close()  # the JVM ends with its input
            gateway.proc.wait(timeout=_WAIT)


class SparkCluster:
    """A master, two workers with room for two applications, and a Connect server, which is one."""

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 2,
        cores: int = 2,
        used: int = 2,
        compiles_well: bool = False,
    ) -> None:
        """`cores` of each worker, and how many of all are `used` by the Connect server."""
        self._java = _JAVA.partition(" ")[2] if compiles_well else _JAVA
        self._workers, self._cores, self._used = workers, cores, used
        self._folder = folder
        self._log = folder / "log"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._home = _home()
        self._master_port, self._connect_port = _free_port(), _free_port()

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self._master_port}"

    @property
    def connect(self) -> str:
        return f"sc://127.0.0.1:{self._connect_port}"

    def start(self) -> None:
        package = "org.apache.spark.deploy"
        where = ("--host", "127.0.0.1", "--webui-port", "0")
        self._start("spark-class", f"{package}.master.Master", *where, "--port", str(self._master_port))
        self._wait(self._master_port)
        for number in range(1, self._workers + 1):
            folder = self._folder / f"worker-{number}"
            self._start(
                *(
                    "spark-class",
                    f"{package}.worker.Worker",
                    *where,
                    "--cores",
                    str(self._cores),
                    "--memory",
                    "2g",
                ),
                *("--work-dir", str(folder), self.master),
            )
        settings = SETTINGS | {
            "spark.driver.extraJavaOptions": self._java,
            "spark.executor.extraJavaOptions": self._java,
            "spark.executor.memory": "600m",
            "spark.cores.max": str(self._used),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._connect_port),
            "spark.sql.warehouse.dir": str(self._folder / "tables"),
        }
        listed = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        self._start(
            *("spark-submit", "--master", self.master, *listed),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
        )
        self._wait(self._connect_port)

    def stop(self) -> None:
        """Ends the processes, each with the executors that it started."""
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in reversed(self._processes):
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._processes.clear()

    def _start(self, program: str, *arguments: str) -> None:
        # Not outliving a killed test run, where that can be asked for.
        lent = ["setpriv", "--pdeathsig=TERM"] if shutil.which("setpriv") else []
        with self._log.open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [*lent, str(self._home / "bin" / program), *arguments],
                    cwd=self._folder,
                    env=_environment(self._folder)
                    | {"SPARK_HOME": str(self._home), "SPARK_DAEMON_JAVA_OPTS": self._java},
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + _WAIT
        while True:
            with closing(socket.socket()) as caller:
                if caller.connect_ex(("127.0.0.1", port)) == 0:
                    return
            if self._processes[-1].poll() is not None or time.monotonic() > deadline:
                said = self._log.read_text(errors="replace")[-2000:]
                pytest.fail(f"The Spark cluster for the tests did not start: {said}", pytrace=False)
            time.sleep(0.1)


def _free_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[SparkCluster]:
    with tempfile.TemporaryDirectory(prefix="dpxplain-spark-") as name:
        cluster = SparkCluster(Path(name))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
