#!/usr/bin/env bash
# containers.sh ROOT BUILD: starts docker-compose.yml's servers and plays its demo, with the programs of BUILD in our
# image. Skipped where no Docker engine answers; it starts none.
set -euo pipefail

root=$1 build=$2
cd "$root"

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }

docker info >/dev/null 2>&1 || skip "no Docker engine answers (docker info)"
if docker compose version >/dev/null 2>&1; then
  compose=(docker compose)
elif command -v docker-compose >/dev/null; then
  compose=(docker-compose)
else
  skip "docker-compose is not installed (Debian package docker-compose)"
fi
have_image() { docker image inspect "$1" >/dev/null 2>&1; }
if ((EUID != 0)) && ! { { have_image debian:12-slim || have_image stand-in-debian:12-slim; } &&
  { have_image zookeeper:3.9 || have_image stand-in-zookeeper:debian-12; }; }; then
  skip "the images are not there, and building stand-ins takes root (scripts/docker_images.sh)"
fi

# --- The images: programs of another system than the image's would not start there. -----------------
programs=()
# shellcheck source=/dev/null
[[ $(. /etc/os-release && echo "${VERSION_CODENAME:-}") != bookworm ]] || programs=(--programs "$build")
variables=$(scripts/docker_images.sh "${programs[@]}")
eval "$variables"

# --- The servers, with ports from the kernel ------------------------------------------------------
export ZOOKEEPER_PORT=
project=zkrecipes-test-$$
compose+=(--project-name "$project")
sleeper=$project-sleeper holder=$project-holder
end() {
  docker rm --force "$sleeper" "$holder" >/dev/null 2>&1 || true
  "${compose[@]}" down --volumes --timeout 2
}
trap end EXIT
"${compose[@]}" up --detach

# The engine tells when a server becomes healthy. Events since before the look, so that none is missed.
healthy() {  # $1: a service
  local id since result=0
  id=$("${compose[@]}" ps --quiet "$1")
  since=$(date +%s)
  coproc events {
    exec timeout 120 docker events --since "$since" --filter "container=$id" --format '{{.Status}}' 2>/dev/null
  }
  [[ $(docker inspect --format '{{.State.Health.Status}}' "$id") == healthy ]] ||
    grep --quiet 'health_status: healthy' <&"${events[0]}" || result=1
  # shellcheck disable=SC2154  # coproc sets it.
  kill "$events_PID" 2>/dev/null || true
  wait "$events_PID" || true
  return "$result"
}
connect_string='' names=''
for server in zk1 zk2 zk3; do
  healthy "$server" || fail "$server did not become healthy"
  connect_string+=${connect_string:+,}$("${compose[@]}" port "$server" 2181)
  names+=${names:+,}$server:2181
done
echo "servers: $connect_string"

# From this machine, and from a container of our image beside the servers.
ZKRECIPES_SERVER=$connect_string "$build/examples/example_lock" || fail "example_lock on this machine"
beside() { docker run --network "${project}_default" --env "ZKRECIPES_SERVER=$names" "$@"; }
beside --rm "$ZKRECIPES_IMAGE" example_lock || fail "example_lock in a container"

# --- Our image ------------------------------------------------------------------------------------
[[ $(docker run --rm "$ZKRECIPES_IMAGE" id --user) != 0 ]] || fail "our image runs as root"
# A signal ends a program that does not handle it.
docker run --detach --name "$sleeper" "$ZKRECIPES_IMAGE" sleep infinity >/dev/null
docker kill --signal TERM "$sleeper" >/dev/null
code=$(timeout 60 docker wait "$sleeper") || fail "a program of our image outlives SIGTERM"
((code == 128 + 15)) || fail "a program of our image ended with $code by SIGTERM"

check_zkr() {  # $1: where zkr is, $2...: the image, and what it takes to call zkr there
  local where=$1 code=0 line=''
  shift
  beside --rm "$@" lock /deploy -- sh -c 'exit 3' || code=$?
  ((code == 3)) || fail "$where: zkr ended with $code, its command with 3"
  beside --detach --name "$holder" "$@" lock /deploy -- sh -c 'echo held; exec sleep infinity' >/dev/null
  read -r -t 120 line < <(docker logs --follow "$holder") || true
  [[ $line == held ]] || fail "$where: zkr does not get the lock"
  docker kill --signal TERM "$holder" >/dev/null
  code=$(timeout 60 docker wait "$holder") || fail "$where: zkr outlives SIGTERM"
  ((code == 128 + 15)) || fail "$where: zkr ended with $code by SIGTERM"
  docker rm "$holder" >/dev/null
  beside --rm "$@" lock --try /deploy -- true || fail "$where: zkr has not given the lock back"
}
check_zkr "below tini" "$ZKRECIPES_IMAGE" zkr
check_zkr "as process 1" --entrypoint zkr "$ZKRECIPES_IMAGE"

trap - EXIT
end

# --- The demo -------------------------------------------------------------------------------------
scripts/demo_containers.sh
