"""Without Docker these tests are left out, and say so; in CI that is a failure."""

from __future__ import annotations

import os

import pytest

from tests.docker.system import IMAGE, inspect_image, problem


@pytest.fixture(scope="session")
def docker() -> None:
    """A daemon and our image."""
    found = problem()
    if not found and not inspect_image(IMAGE):
        found = f"there is no image {IMAGE}"
    if found:
        text = (
            f"{found}: the Docker tests are left out. tests/docker/run.sh makes what they need and"
            " runs them."
        )
        if os.environ.get("CI") == "true":
            pytest.fail(text)
        pytest.skip(text)
