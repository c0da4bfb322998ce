"""The overlays of deploy/k8s, one after another."""

from __future__ import annotations

import pytest

from tests.contract.kustomize import OVERLAYS, RENDERED, Manifest


@pytest.fixture(params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> list[Manifest]:
    return RENDERED[request.param]
