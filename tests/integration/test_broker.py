"""The embedded broker on real Java: restarts, kills, locks, broken folders, no network."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams import broker
from streams.broker import AlreadyRunningError, BrokerError, EmbeddedBroker, jars

TOPIC = "kept"
HEAP_MB = 256


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker of this test alone, not started; it does not outlive the test."""
    made = EmbeddedBroker(tmp_path, heap_mb=HEAP_MB)
    yield made
    made.stop()
    broker.stop(tmp_path)


async def produce(bootstrap: str, values: list[bytes]) -> None:
    """Create the topic if need be, and return once all values are acknowledged."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(TOPIC, 1, 1)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    async with producer:
        for value in values:
            await producer.send_and_wait(TOPIC, value)


async def consume(bootstrap: str) -> list[bytes]:
    """All values of the topic."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with consumer:
        partition = TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        found: list[bytes] = []
        while len(found) < end:
            batches = await consumer.getmany(timeout_ms=500)
            found.extend(message.value for batch in batches.values() for message in batch)
    return found


async def test_data_and_address_survive_a_restart(own: EmbeddedBroker, tmp_path: Path) -> None:
    address = own.start()
    await produce(address, [b"one", b"two"])
    own.stop()
    assert not broker.status(tmp_path).running
    assert not (tmp_path / "broker.json").exists()
    assert own.start() == address
    assert await consume(address) == [b"one", b"two"]


async def test_data_survives_kill_9(own: EmbeddedBroker, tmp_path: Path) -> None:
    address = own.start()
    await produce(address, [b"%d" % n for n in range(100)])
    assert own.pid is not None
    os.kill(own.pid, signal.SIGKILL)
    assert within(5, lambda: not broker.status(tmp_path).running)
    again = EmbeddedBroker(tmp_path, heap_mb=HEAP_MB)
    try:
        assert again.start() == address
        assert await consume(address) == [b"%d" % n for n in range(100)]
    finally:
        again.stop()


def test_a_second_start_is_refused_or_attaches(own: EmbeddedBroker, tmp_path: Path) -> None:
    address = own.start()
    second = EmbeddedBroker(tmp_path)
    with pytest.raises(AlreadyRunningError, match=address):
        second.start()
    assert second.start(attach=True) == address
    second.stop()
    assert broker.status(tmp_path) == (True, True, own.pid, address)


def test_starts_at_the_same_time_make_one_broker(tmp_path: Path) -> None:
    addresses: list[str] = []
    made = [EmbeddedBroker(tmp_path, heap_mb=HEAP_MB) for _ in range(3)]
    threads = [
        threading.Thread(target=lambda b=b: addresses.append(b.start(attach=True))) for b in made
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
        assert len(addresses) == 3
        assert len(set(addresses)) == 1
        assert [b.pid for b in made if b.pid] == [broker.status(tmp_path).pid]
    finally:
        broker.stop(tmp_path)
        for b in made:
            b.stop()


def test_another_process_can_end_it(own: EmbeddedBroker, tmp_path: Path) -> None:
    own.start()
    script = "import sys; from pathlib import Path; from streams import broker\n"
    script += "print(broker.stop(Path(sys.argv[1])))"
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"
    assert not broker.status(tmp_path).running


def test_it_listens_on_loopback_alone(own: EmbeddedBroker) -> None:
    own.start()
    listening = {
        connection.laddr.ip.removeprefix("::ffff:")
        for connection in psutil.Process(own.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


PARENT = """
import sys, time
from pathlib import Path
from streams.broker import EmbeddedBroker
with EmbeddedBroker(Path(sys.argv[1]), heap_mb=256) as broker:
    print(broker.pid, flush=True)
    time.sleep(120)
"""


def test_a_managed_broker_dies_with_its_parent(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert broker.status(tmp_path).pid == pid
        parent.kill()
    assert within(30, lambda: not broker.status(tmp_path).running)
    assert within(5, lambda: not psutil.pid_exists(pid))


def test_serving_ends_its_own_broker_and_leaves_another_s_alone(
    own: EmbeddedBroker, tmp_path: Path
) -> None:
    with broker.serving(tmp_path) as address:
        assert broker.status(tmp_path).bootstrap == address
    assert not broker.status(tmp_path).running
    assert own.start() == address
    with broker.serving(tmp_path) as again:
        assert again == address
    assert broker.status(tmp_path).ready


def test_a_damaged_folder_is_told_with_the_last_log_lines(
    own: EmbeddedBroker, tmp_path: Path
) -> None:
    own.start()
    own.stop()
    (tmp_path / "kafka" / "data" / "meta.properties").write_text("version=9\nnode.id=x\n")
    with pytest.raises(BrokerError, match="the data folder is damaged") as raised:
        own.start()
    assert "meta.properties" in str(raised.value)
    assert "\n  | " in str(raised.value)
    assert not broker.status(tmp_path).running
    assert not (tmp_path / "broker.json").exists()


def test_a_broker_that_does_not_come_up_in_time_is_ended(
    own: EmbeddedBroker, tmp_path: Path
) -> None:
    with pytest.raises(BrokerError, match="did not come up within"):
        own.start(timeout_s=0.01)
    assert not broker.status(tmp_path).running


def test_the_port_asked_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    made = EmbeddedBroker(tmp_path, port=port, heap_mb=HEAP_MB)
    try:
        assert made.start() == f"127.0.0.1:{port}"
    finally:
        made.stop()


@pytest.fixture(scope="module")
def fetched() -> None:
    """The jars are in the cache."""
    jars.ensure()


@pytest.fixture
def no_network(fetched: None, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Whatever leaves loopback fails, and is remembered."""
    tried: list[Any] = []
    real = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] != "127.0.0.1":
            tried.append(address)
            raise OSError(f"no network in this test: {address}")
        real(self, address)

    def resolve(*arguments: Any, **options: Any) -> Any:
        if arguments[0] not in ("127.0.0.1", "localhost", None):
            tried.append(arguments)
            raise OSError(f"no network in this test: {arguments}")
        return lookup(*arguments, **options)

    lookup = socket.getaddrinfo
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return tried


def test_a_second_start_needs_no_network(own: EmbeddedBroker, no_network: list[Any]) -> None:
    """Java itself gets proxies that lead nowhere."""
    with pytest.MonkeyPatch.context() as patch:
        nowhere = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=9 -Dhttps.proxyHost=127.0.0.1"
        patch.setenv("JAVA_TOOL_OPTIONS", f"{nowhere} -Dhttps.proxyPort=9")
        own.start()
    own.stop()
    assert no_network == []


@contextlib.contextmanager
def maven(folder: Path) -> Iterator[str]:
    """Serves a folder on loopback; its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_jars_come_from_the_repository_that_jgo_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[Any]
) -> None:
    have = jars.cache_dir(jars.locked())
    repository = tmp_path / "repository"
    for jar in jars.locked():
        folder = repository.joinpath(*jar.group.split("."), jar.artifact, jar.version)
        folder.mkdir(parents=True)
        (folder / jar.file_name).symlink_to(have / jar.file_name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JGO_CONFIG_FILE", str(tmp_path / "jgo.conf"))
    with maven(repository) as address:
        (tmp_path / "jgo.conf").write_text(f"[repositories]\ncentral = {address}\n")
        paths = jars.ensure()
    assert all(path.is_relative_to(tmp_path / "cache") for path in paths)
    assert jars.ensure() == paths
    assert no_network == []


def test_without_jars_and_network_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[Any]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(BrokerError, match="could not be fetched") as raised:
        EmbeddedBroker(tmp_path / "data").start()
    assert "KAFKA_BOOTSTRAP_SERVERS" in str(raised.value)
    assert no_network
