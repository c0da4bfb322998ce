"""A new data folder gets a cluster id that no command line takes for an option."""

from __future__ import annotations

import uuid

import pytest

from streams.broker import embedded


def test_an_id_that_begins_with_a_dash_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    dashed = uuid.UUID(bytes=b"\xf8" + bytes(15))
    plain = uuid.UUID(bytes=b"\x01" * 16)
    answers = iter([dashed, dashed, plain])
    monkeypatch.setattr(embedded.uuid, "uuid4", lambda: next(answers))
    assert embedded.new_cluster_id() == "AQEBAQEBAQEBAQEBAQEBAQ"


def test_ids_are_of_the_form_that_kafka_takes() -> None:
    for _ in range(500):
        made = embedded.new_cluster_id()
        assert len(made) == 22
        assert not made.startswith("-")
