"""Configuration of the embedded broker as text. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from schemas.topics import MAX_MESSAGE_BYTES

NODE_ID: Final = 1
HOST: Final = "127.0.0.1"

_MIB: Final = 1024 * 1024

_FIXED: Final = {
    "process.roles": "broker,controller",
    "node.id": NODE_ID,
    "controller.listener.names": "CONTROLLER",
    # A worker that meets a missing topic must say so; the broker's guess at a partition count
    # would break the co-partitioning that politeness and dedup rest on.
    "auto.create.topics.enable": "false",
    # One node.
    "default.replication.factor": 1,
    "min.insync.replicas": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    # A few consumer groups.
    "offsets.topic.num.partitions": 4,
    "offsets.topic.segment.bytes": 16 * _MIB,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.coordinator.threads": 1,
    "group.initial.rebalance.delay.ms": 100,
    # A laptop's processors and memory: the defaults are for a server with a 1 GiB heap or more.
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 2,
    "log.cleaner.threads": 1,
    "log.cleaner.dedupe.buffer.size": 32 * _MIB,
    "socket.request.max.bytes": 64 * _MIB,
    "metric.reporters": "",
    # Index files are mapped at their full size for each of some 140 partitions.
    "log.segment.bytes": 128 * _MIB,
    "log.index.size.max.bytes": 1 * _MIB,
    "message.max.bytes": MAX_MESSAGE_BYTES + _MIB,
    "compression.type": "producer",
    "offset.metadata.max.bytes": 4096,
    # After kill -9 the controller refuses the broker's new incarnation until the old one's session
    # is over, so this is the price of every hard restart (9 s by default).
    "broker.session.timeout.ms": 4000,
    "broker.heartbeat.interval.ms": 1000,
    # An idle broker need not write twice a second.
    "metadata.max.idle.interval.ms": 5000,
    "metadata.log.segment.bytes": 16 * _MIB,
    # One node has nobody to hand its partitions to.
    "controlled.shutdown.enable": "true",
    "offsets.retention.minutes": 60 * 24 * 30,
}


def server_properties(data: Path, port: int, controller_port: int) -> str:
    """server.properties of a node that keeps its logs in `data` and listens on loopback alone."""
    settings = {
        **_FIXED,
        "controller.quorum.voters": f"{NODE_ID}@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": _escaped(data),
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def log4j2_properties(log: Path) -> str:
    """Logging: INFO to a rotated file, less the dumps of all settings and per-record lines."""
    quiet = {
        "config": "org.apache.kafka.common.config",
        "configs": "kafka.server.KafkaConfig",
        "replay": "org.apache.kafka.controller",
        "reaper": "org.apache.kafka.server.quota",
        "state": "org.apache.kafka.image",
        "loader": "org.apache.kafka.storage.internals.log",
        "log": "kafka.log",
    }
    lines = [
        "status=error",
        "shutdownHook=disable",
        "appender.file.type=RollingFile",
        "appender.file.name=file",
        f"appender.file.fileName={_escaped(log)}",
        f"appender.file.filePattern={_escaped(log)}.%i",
        "appender.file.layout.type=PatternLayout",
        "appender.file.layout.pattern=%d{ISO8601} %-5p %m (%c)%n",
        "appender.file.policies.type=Policies",
        "appender.file.policies.size.type=SizeBasedTriggeringPolicy",
        "appender.file.policies.size.size=10MB",
        "appender.file.strategy.type=DefaultRolloverStrategy",
        "appender.file.strategy.max=3",
        "rootLogger.level=info",
        "rootLogger.appenderRef.file.ref=file",
    ]
    for key, name in quiet.items():
        lines += [f"logger.{key}.name={name}", f"logger.{key}.level=warn"]
    return "\n".join(lines) + "\n"


def _escaped(path: Path) -> str:
    """A path as a value of a Java properties file."""
    text = str(path).replace("\\", "\\\\")
    return "".join(c if c.isascii() else _unicode_escape(c) for c in text)


def _unicode_escape(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


# What the last log lines mean to whoever must act, first match wins.
_CAUSES: Final = (
    ("No space left on device", "the disk is full"),
    ("Address already in use", "the port is taken by another process"),
    ("Permission denied", "the data folder is not writable"),
    ("AccessDeniedException", "the data folder is not writable"),
    ("Read-only file system", "the data folder is on a read-only disk"),
    ("Too many open files", "the limit of open files is too low (raise it with ulimit -n)"),
    ("OutOfMemoryError", "the Java heap is too small"),
    ("Could not reserve enough space", "there is not enough memory for the Java heap"),
    ("UnsupportedClassVersionError", "the Java runtime is older than 17"),
    ("InconsistentClusterIdException", "the data folder holds another cluster's data"),
    ("meta.properties", "the data folder is damaged"),
    ("CorruptRecordException", "the data folder is damaged"),
    ("Failed to acquire lock on file .lock", "another Kafka uses the data folder"),
    ("Log directory failure", "the data folder is damaged"),
)


def cause(log_tail: str) -> str | None:
    """Why the broker did not come up, as its last log lines have it; None: they do not tell."""
    return next((meaning for sign, meaning in _CAUSES if sign in log_tail), None)
