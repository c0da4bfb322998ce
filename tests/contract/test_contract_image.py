"""The image: its Dockerfile and its lock."""

from __future__ import annotations

import re
from pathlib import Path

from streams.settings import load
from tests.contract.kustomize import DEPLOY, ROOT


def test_the_image_has_a_user_a_health_check_and_its_settings() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK ", text, re.MULTILINE)
    pairs = dict(re.findall(r"\b(CRAWL_\w+)=(\S+)", text))
    load({name: value for name, value in pairs.items() if name.startswith("CRAWL_")})


def lock(path: Path) -> dict[str, str]:
    blocks = re.split(r"\n(?=\S)", path.read_text(encoding="utf-8").strip())
    return {block.partition("==")[0]: block for block in blocks}


def test_the_images_lock_agrees_with_the_projects() -> None:
    """Made by: uv pip compile pyproject.toml --extra kubernetes --constraint requirements.lock."""
    image, project = lock(DEPLOY / "requirements.lock"), lock(ROOT / "requirements.lock")
    for name in image.keys() & project.keys():
        assert image[name] == project[name], f"{name}: make deploy/requirements.lock anew"
    assert {"aiokafka", "faust-streaming", "kubernetes"} <= image.keys()
    assert "pytest" not in image
    assert "://" not in (DEPLOY / "requirements.lock").read_text(encoding="utf-8")
