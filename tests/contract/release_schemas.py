"""Record the versions of the Avro schemas as released.

    python tests/contract/release_schemas.py             adds the versions that are new
    python tests/contract/release_schemas.py --rewrite   takes all as they are

A version that a deployment may have written is never edited: its bytes lie in topics. Add
`schemas/avsc/NAME.{n + 1}.avsc` and run this. `--rewrite` is for a version that nobody has
deployed yet.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from schemas import codec  # noqa: E402  # a script finds the tree it lies in, installed or not
from tests.contract.schema_checks import content_digest  # noqa: E402

FILE = Path(__file__).with_name("released.json")

Released = dict[str, dict[str, str]]


def current() -> Released:
    """Fingerprint (as on the wire) and digest of every schema version in the tree."""
    return {
        f"{name}.{version.version}": {
            "fingerprint": version.header[2:].hex(),
            "content": content_digest(version.raw),
        }
        for name in codec.NAMES
        for version in codec.versions(name)
    }


def released() -> Released:
    """The versions recorded as released."""
    found: Released = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return found


def main(arguments: list[str]) -> int:
    """Write the file; 1 when a released version was edited or removed."""
    before, now = released(), current()
    changed = sorted(key for key in before if before[key] != now.get(key))
    if changed and arguments != ["--rewrite"]:
        print("released, but edited or removed since:", ", ".join(changed))
        return 1
    FILE.write_text(json.dumps(now, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print("recorded:", ", ".join(sorted(key for key in now if before.get(key) != now[key])) or "-")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
