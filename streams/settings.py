"""Settings of every role, from the environment, read once at a process's start.

All are prefixed `CRAWL_`, except those of the Kafka connection, which have the names that other
Kafka tools use. Unknown `CRAWL_*` variables are errors, and all problems are reported together.
"""

from __future__ import annotations

import os
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AliasChoices, Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from schemas.errors import ConfigError
from schemas.topics import RETRY_TIERS, RETRY_TIERS_S

if TYPE_CHECKING:
    from collections.abc import Mapping

Network = IPv4Network | IPv6Network


def _kafka(name: str) -> Any:
    return AliasChoices(f"KAFKA_{name}")


class Settings(BaseSettings):
    """Every setting. The docstring under a field is its entry in the README's table."""

    model_config = SettingsConfigDict(
        env_prefix="CRAWL_",
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        env_ignore_empty=True,
    )

    # Who we are.
    agent: Annotated[str, Field(pattern=r"^[A-Za-z_-]{1,64}$")] | None = None
    """Product token: in User-Agent, and the name that robots.txt groups are matched with.
    Required for crawling."""
    contact: Annotated[str, Field(pattern=r"^(https?://\S+|\S+@\S+)$", max_length=200)] | None = (
        None
    )
    """URL or mail address for site owners, in User-Agent. Required for crawling."""

    # Kafka.
    bootstrap_servers: str | None = Field(
        default=None, validation_alias=_kafka("BOOTSTRAP_SERVERS")
    )
    """host:port list of your Kafka; unset: the embedded broker of the data folder."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", validation_alias=_kafka("SECURITY_PROTOCOL")
    )
    """How to talk to Kafka."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="PLAIN", validation_alias=_kafka("SASL_MECHANISM")
    )
    """SASL mechanism for SASL_* protocols."""
    sasl_username: str | None = Field(default=None, validation_alias=_kafka("SASL_USERNAME"))
    """SASL user."""
    sasl_password: str | None = Field(
        default=None, validation_alias=_kafka("SASL_PASSWORD"), repr=False
    )
    """SASL password."""
    ssl_cafile: Path | None = Field(default=None, validation_alias=_kafka("SSL_CAFILE"))
    """PEM file of the authorities that sign the brokers; unset: the system's."""
    ssl_certfile: Path | None = Field(default=None, validation_alias=_kafka("SSL_CERTFILE"))
    """PEM file of the client certificate."""
    ssl_keyfile: Path | None = Field(default=None, validation_alias=_kafka("SSL_KEYFILE"))
    """PEM file of the client key."""
    topic_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,60}$")] = ""
    """Prefix of all topics, groups and applications, so that deployments share a cluster."""
    partitions: Annotated[int, Field(ge=1, le=10_000)] = 12
    """Partitions of the data topics; choose once, a number with many divisors."""
    replication_factor: Annotated[int, Field(ge=1, le=7)] = 1
    """Copies of each topic; 3 in production."""
    session_timeout_s: Annotated[float, Field(ge=6, le=300)] = 30.0
    """A worker that is silent this long loses its partitions to the others."""
    delivery_timeout_s: Annotated[float, Field(ge=1, le=600)] = 60.0
    """A message that Kafka does not acknowledge in this time ends the process (exit 75)."""
    commit_interval_s: Annotated[float, Field(ge=0.05, le=60)] = 1.0
    """Time between commits; what was done since is done again after a crash."""
    drain_timeout_s: Annotated[float, Field(ge=0, le=600)] = 20.0
    """How long started work may take to finish when partitions are revoked or on SIGTERM."""

    # Places.
    data_dir: Path = Path(".data")
    """Folder of the embedded broker, dedup state, blobs and logs."""
    blob_url: str | None = None
    """Where large bodies go: file://, s3://, gs:// or az:// URL; unset: `blobs` in the data
    folder. Credentials come from the environment as the store's own tools expect them."""
    inline_body_bytes: Annotated[int, Field(ge=0, le=3 * 1024 * 1024)] = 256 * 1024
    """Compressed bodies up to this size travel in Kafka, larger ones in the blob store."""

    # Fetching.
    window: Annotated[int, Field(ge=1, le=20_000)] = 1_000
    """Requests held per partition by a fetcher."""
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 64
    """Most requests in flight per fetcher; it adapts below this."""
    per_address: Annotated[int, Field(ge=1, le=1_000)] = 64
    """Requests in flight to one IP address, over all its hosts."""
    fetch_deadline_s: Annotated[float, Field(gt=0, le=3_600)] = 60.0
    """Time for one attempt, from connect to the last byte."""
    connect_timeout_s: Annotated[float, Field(gt=0, le=600)] = 10.0
    """Time to resolve, connect and shake hands."""
    first_byte_timeout_s: Annotated[float, Field(gt=0, le=600)] = 20.0
    """Time from the request to the response's headers."""
    idle_timeout_s: Annotated[float, Field(gt=0, le=600)] = 20.0
    """Longest silence within a body."""
    max_body_bytes: Annotated[int, Field(ge=1)] = 16 * 1024 * 1024
    """Cap of a decoded body; longer ones are cut and marked `truncated`."""
    max_wire_bytes: Annotated[int, Field(ge=1)] = 16 * 1024 * 1024
    """Cap of a body on the wire."""
    max_inflate_ratio: Annotated[float, Field(ge=1)] = 500.0
    """A body that inflates by more than this (beyond its first MiB) is a `bomb`."""
    max_header_bytes: Annotated[int, Field(ge=1_024)] = 64 * 1024
    """Cap of a response's headers."""
    robots_ttl_s: Annotated[float, Field(ge=60, le=86_400)] = 86_400.0
    """How long a robots.txt is used; RFC 9309 allows 24 h at most."""
    crawl_delay_cap_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """Longest Crawl-delay of a robots.txt that is obeyed as it stands."""
    allow_networks: Annotated[tuple[Network, ...], NoDecode] = ()
    """Comma-separated networks (CIDR) to open although they are not public, e.g. 10.0.0.0/8."""
    retry_tiers_s: Annotated[tuple[float, ...], NoDecode] = RETRY_TIERS_S
    """Comma-separated delays of the five retry topics, shortest first."""
    verify_tls: bool = True
    """Check the certificates of web servers."""
    dns_ttl_s: Annotated[float, Field(ge=0, le=86_400)] = 300.0
    """How long an address is used without asking again; failures a tenth of it."""

    # Parsing.
    parse_deadline_s: Annotated[float, Field(gt=0, le=600)] = 10.0
    """CPU time for one document."""
    parse_processes: Annotated[int, Field(ge=1, le=64)] | None = None
    """Parse processes per parser worker; unset: 1, and with `crawl run` and `crawl up` as many as
    there are cores, and memory for."""
    parse_memory_mb: Annotated[int, Field(ge=128, le=65_536)] = 1_024
    """Memory that a parse process may take beyond what it starts with."""
    parse_window: Annotated[int, Field(ge=1, le=10_000)] = 200
    """Fetch results held per partition by a parser."""
    max_html_bytes: Annotated[int, Field(ge=1_024)] = 16 * 1024 * 1024
    """HTML beyond this is not parsed: the record is marked `truncated`."""

    # Dedup.
    dedup_memory_mb: Annotated[int, Field(ge=16, le=65_536)] = 256
    """Memory for RocksDB's caches in one dedup worker, over all its partitions."""
    instance: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] | None = None
    """Name of a dedup worker's folder under `dedup` in the data folder; unset: the first number
    that no running worker holds."""

    # The crawl `default`, which plain seeds belong to.
    default_max_pages: Annotated[int, Field(ge=1)] | None = None
    """Page budget of the crawl `default`; unset: none."""
    default_max_depth: Annotated[int, Field(ge=0)] | None = None
    """Depth limit of the crawl `default`; unset: none."""
    default_delay_s: Annotated[float, Field(ge=0, le=86_400)] = 1.0
    """Politeness delay of the crawl `default`."""

    # Operation.
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """Port of /metrics, /healthz and /readyz; 0: any free one; unset: none."""
    metrics_host: str = "127.0.0.1"
    """Address that the metrics port listens on."""
    log_format: Literal["console", "json"] = "console"
    """Form of the log lines."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level that is logged."""

    @field_validator("allow_networks", mode="before")
    @classmethod
    def _split_networks(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(ip_network(part.strip()) for part in value.split(",") if part.strip())
        return value

    @field_validator("retry_tiers_s", mode="before")
    @classmethod
    def _split_tiers(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(float(part) for part in value.split(","))
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        tiers = self.retry_tiers_s
        if len(tiers) != len(RETRY_TIERS) or list(tiers) != sorted(tiers) or tiers[0] <= 0:
            raise ValueError(f"CRAWL_RETRY_TIERS_S: {len(RETRY_TIERS)} growing delays are needed")
        if self.security_protocol.startswith("SASL") and not (
            self.sasl_username and self.sasl_password
        ):
            raise ValueError("KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD are needed for SASL")
        if bool(self.ssl_certfile) != bool(self.ssl_keyfile):
            raise ValueError("KAFKA_SSL_CERTFILE and KAFKA_SSL_KEYFILE go together")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the base class's signature
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` passes: it reads the environment itself, to see unknown names."""
        return (init_settings,)

    def identity(self) -> tuple[str, str]:
        """Agent and contact. Raises ConfigError when either is missing: we never crawl nameless."""
        if not self.agent or not self.contact:
            raise ConfigError(
                "CRAWL_AGENT (a product token such as acmebot) and CRAWL_CONTACT (a URL or mail"
                " address for site owners) must be set before anything is fetched"
            )
        return self.agent, self.contact


def env_name(field: str) -> str:
    """Environment variable of a field."""
    alias = Settings.model_fields[field].validation_alias
    if isinstance(alias, AliasChoices):
        return str(alias.choices[0])
    return f"CRAWL_{field.upper()}"


def load(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Settings from an environment. Raises ConfigError naming every problem at once.

    Args:
        environ: variables to read; None: the process's own.
        overrides: field values that win over the environment.
    """
    env = dict(os.environ if environ is None else environ)
    known = {env_name(field): field for field in Settings.model_fields}
    found = [
        f"{name}: no such setting"
        for name in sorted(env)
        if name.startswith("CRAWL_") and name not in known
    ]
    values: dict[str, Any] = {
        known[name]: value for name, value in env.items() if name in known and value != ""
    }
    values.update(overrides)
    try:
        settings = Settings(**values)
    except ValidationError as error:
        found.extend(
            f"{env_name(str(item['loc'][0])) if item['loc'] else 'settings'}: {item['msg']}"
            for item in error.errors(include_url=False)
        )
    else:
        if not found:
            return settings
    raise ConfigError("settings:\n  " + "\n  ".join(found))
