#!/usr/bin/env bash
# Five containers elect a leader and take turns under a lock, on three ZooKeeper servers in containers. They are killed,
# paused and cut off from the network, and so are the servers. Says what happens meanwhile, and judges in the end: exit
# code 0 if there never were two leaders or two holders, and all went on after each fault. Takes a minute or two, and
# leaves nothing running.
#
#   scripts/demo_containers.sh    pulls the server's image and builds ours (docker-compose.yml says which)
#     --no-registry               first builds what no registry gives (docker_images.sh)
#     --keep                      leave the containers and their files, for a look at them
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

keep=0 registry=1
for argument in "$@"; do
  case $argument in
    --keep) keep=1 ;;
    --no-registry) registry=0 ;;
    -h | --help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "demo_containers: unknown option $argument (see --help)" >&2; exit 2 ;;
  esac
done

die() { printf 'demo_containers: %s\n' "$@" >&2; exit 1; }

docker info >/dev/null 2>&1 || die "no Docker engine answers (docker info)"
if docker compose version >/dev/null 2>&1; then
  compose=(docker compose)
elif command -v docker-compose >/dev/null; then
  compose=(docker-compose)
else
  die "there is no docker-compose (Debian package docker-compose)"
fi
if ((!registry)); then
  variables=$(scripts/docker_images.sh)
  eval "$variables"
fi

players=(ann bob cat dan eve)
servers=(zk1 zk2 zk3)
# A name of its own, and free ports: other ensembles of this machine go on.
project=zkrecipes-demo-$$
export ZOOKEEPER_PORT=
compose+=(--project-name "$project" --profile demo)
network=${project}_default
volume=${project}_stage
image=${ZKRECIPES_IMAGE-zkrecipes}

log=$(mktemp)
end() {
  local status=$?
  trap - EXIT
  docker rm --force "$project-reader" >/dev/null 2>&1 || true
  if ((keep)); then
    echo "left: ${compose[*]} down --volumes"
  else
    # A paused container cannot be stopped.
    docker ps --quiet --filter "label=com.docker.compose.project=$project" --filter status=paused |
      xargs --no-run-if-empty docker unpause >/dev/null 2>&1 || true
    "${compose[@]}" down --volumes --timeout 2 >>"$log" 2>&1 || { cat "$log" >&2; status=1; }
  fi
  rm -f "$log"
  exit "$status"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- What is heard --------------------------------------------------------------------------------
# The players append what they do to one file, so all of it is in the order in which they wrote it.

declare -A container=() turns=() left=()
leader='' holder='' dwells='' late=0 all_turns=0
start='' unshown=''

show() {  # Who, what.
  local now=${EPOCHREALTIME/[.,]/}
  : "${start:=$now}"
  printf '%6d.%d s  %-9s %s\n' $(((now - start) / 1000000)) $(((now - start) / 100000 % 10)) "$1" "$2"
}
# Turns are many: one line for some of them, with their tokens.
show_turns() { [[ -z $unshown ]] || show lock "${unshown# }"; unshown=''; }
row() { show_turns; show "$@"; }
direct() { row '>>>' "$*"; }
act() {  # The title, then lines that explain.
  show_turns
  printf '\n-- %s\n' "$1"
  shift
  (($# == 0)) || printf '   %s\n' "$@"
  echo
}

hear() {  # The next line. The players never stop working, so silence is a failure; the limit ends what hangs.
  local who what token number text
  read -r -t "$((limit > SECONDS ? limit - SECONDS : 1))" -u "$lines" who _ what token number text ||
    die "waited too long for $awaited"
  case $what in
    joined) row "$who" "has a session" ;;
    leads) leader=$who; row "$who" "LEADS, term $token" ;;
    resigned) [[ $leader != "$who" ]] || leader=''; row "$who" "resigns" ;;
    deposed) [[ $leader != "$who" ]] || leader=''; row "$who" "notices: leads no more" ;;
    holds)
      holder=$who
      unshown+=" $who $token"
      ((${#unshown} < 70)) || show_turns
      ;;
    dwells) dwells=$who; row "$who" "has looked at its lease, is about to write" ;;
    releases)
      holder=''
      turns[$who]=$((${turns[$who]:-0} + 1))
      all_turns=$((all_turns + 1))
      ;;
    refused) late=$((late + 1)); row "$who" "writes late: REFUSED, token $token < $number" ;;
    lost) [[ $holder != "$who" ]] || holder=''; row "$who" "notices: its lease is lost" ;;
    left) left[$who]=1; row "$who" "has closed its session" ;;
    retries | fails) row "$who" "$what: ${text:0:100}" ;;
  esac
}

await() {  # What is waited for, a command that says whether it is so.
  awaited=$1
  shift
  local limit=$((SECONDS + 90))
  until "$@"; do
    ((SECONDS < limit)) || die "waited too long for $awaited"
    hear
  done
}

# --- What is waited for ---------------------------------------------------------------------------

someone_leads() { [[ -n $leader ]]; }
another_leads() { [[ -n $leader && $leader != "$1" ]]; }  # another than $1
is_about_to_write() { [[ $dwells == "$1" ]]; }
has_noticed() { [[ $leader != "$1" ]]; }
late_write_refused() { ((late > 0)); }
turns_reach() { ((all_turns >= $1)); }
turns_of_reach() { ((${turns[$1]:-0} >= $2)); }
each_had_turns() {  # $1 of them
  local player
  for player in "${players[@]}"; do
    turns_of_reach "$player" "$1" || return 1
  done
}
all_left() { ((${#left[@]} == ${#players[@]})); }

goes_on() { await "turns of others" turns_reach $((all_turns + 3)); }
takes_part() { await "a turn of $1" turns_of_reach "$1" $((${turns[$1]:-0} + 1)); }
# Each has another turn: also those that were connected to the server that is gone.
all_go_on() {
  local least=0 player
  for player in "${players[@]}"; do
    ((${turns[$player]:-0} <= least)) || least=${turns[$player]}
  done
  await "a turn of each player" each_had_turns "$((least + 1))"
}

quietly() { "$@" >>"$log" 2>&1 || { cat "$log" >&2; die "failed: $*"; }; }
server_says() {  # The answer of server $1 to the word $2.
  docker exec "${container[$1]}" bash -c "exec 3<>/dev/tcp/127.0.0.1/2181 && echo $2 >&3 && cat <&3"
}
# The engine's word would be old: it calls a server unhealthy only after many failures.
serves() { server_says "$1" srvr 2>>"$log" | grep -E '^Mode: (leader|follower)' >/dev/null; }
leading_server() {
  local server
  for server in "${servers[@]}"; do
    if server_says "$server" srvr | grep '^Mode: leader' >/dev/null; then echo "$server"; return; fi
  done
  return 1
}

# --- The acts -------------------------------------------------------------------------------------

echo "five players, one leader, one lock, one shared file; three servers: all in containers"
# An image that is there may be of other sources. All players share one.
[[ -n ${ZKRECIPES_IMAGE-} ]] || "${compose[@]}" build ann >"$log" 2>&1 || { cat "$log" >&2; die "could not build our image, see above"; }
"${compose[@]}" up --detach >"$log" 2>&1 || { cat "$log" >&2; die "could not start the containers, see above"; }
for service in "${servers[@]}" "${players[@]}"; do
  container[$service]=$("${compose[@]}" ps --quiet "$service")
done
exec {lines}< <(docker run --rm --name "$project-reader" --volume "$volume:/stage:ro" "$image" \
  tail --lines=+1 --follow=name --retry /stage/lines 2>/dev/null)

act "The players elect a leader, and take turns"
await "a turn of each player" each_had_turns 1
await "a leader" someone_leads

act "The leader's container is killed" \
  "The next in line leads once the server has given up the session; the dead one comes back."
victim=$leader
quietly docker kill "${container[$victim]}"
leader=''
[[ $holder != "$victim" ]] || holder=''
direct "killed $victim, the leader"
await "another leader" another_leads "$victim"
goes_on
quietly docker start "${container[$victim]}"
direct "started $victim again"
takes_part "$victim"

act "A holder's container is paused, between its last look at its lease and its write" \
  "Others hold the lock meanwhile. Woken up, it writes, late; the store refuses its old token."
for victim in "${players[@]}"; do [[ $victim == "$leader" ]] || break; done
paused=$victim
quietly docker kill --signal USR1 "${container[$paused]}"
await "a holder that is about to write" is_about_to_write "$paused"
quietly docker pause "${container[$paused]}"
direct "paused $paused, which holds the lock"
goes_on
quietly docker unpause "${container[$paused]}"
quietly docker kill --signal USR2 "${container[$paused]}"
direct "woke $paused up"
await "the late write" late_write_refused
takes_part "$paused"

act "The leader's container is cut off from the network" \
  "It notices by its own clock, before another can lead, and takes part again once it is connected."
await "a leader" someone_leads
victim=$leader
quietly docker network disconnect "$network" "${container[$victim]}"
direct "disconnected $victim, the leader"
await "the leader to notice" has_noticed "$victim"
await "another leader" another_leads "$victim"
goes_on
quietly docker network connect "$network" "${container[$victim]}"
direct "connected $victim"
takes_part "$victim"

act "The servers' leader is killed" "The other two elect one of them. Those who were connected to it move."
server=$(leading_server)
quietly docker kill "${container[$server]}"
direct "killed $server, the servers' leader"
all_go_on
quietly docker start "${container[$server]}"
direct "started $server again"
await "$server to serve" serves "$server"
direct "$server serves again"

act "The servers' leader is paused" "It is silent, and its connections stay open: only time tells."
server=$(leading_server)
quietly docker pause "${container[$server]}"
direct "paused $server, the servers' leader"
all_go_on
quietly docker unpause "${container[$server]}"
direct "woke $server up"
await "$server to serve" serves "$server"
direct "$server serves again"

act "The servers' leader is cut off from the network"
server=$(leading_server)
quietly docker network disconnect "$network" "${container[$server]}"
direct "disconnected $server, the servers' leader"
all_go_on
quietly docker network connect --alias "$server" "$network" "${container[$server]}"
direct "connected $server"
await "$server to serve" serves "$server"
direct "$server serves again"

act "An orderly end" "Each gets a SIGTERM, gives back what it has, closes its session and ends."
await "a leader" someone_leads
for player in "${players[@]}"; do quietly docker kill --signal TERM "${container[$player]}"; done
await "the end of all players" all_left

# --- The judgement --------------------------------------------------------------------------------

act "The judgement" "Only who was paused or killed is excused when it notices a loss late."
passed=1
check() {  # What, then a command that says whether it is so.
  local what=$1 mark='[ ok ]'
  shift
  "$@" || { mark='[FAIL]'; passed=0; }
  echo "  $mark $what"
}
docker run --rm --volume "$volume:/stage" "$image" tour judge /stage "$paused" || passed=0

ended_well() {
  local player
  for player in "${players[@]}"; do
    [[ $(docker wait "${container[$player]}") == 0 ]] || return 1
  done
}
check "all players ended with exit code 0" ended_well

# Those who left did so by a write, which the leader has seen.
left_nothing() { server_says "$(leading_server)" mntr | grep -E '^zk_ephemerals_count\s+0$' >/dev/null; }
check "nothing of theirs is left on the servers" left_nothing

echo
if ((passed)); then
  echo "All is as it should be."
else
  echo "SOMETHING IS NOT AS IT SHOULD BE: see [FAIL] above."
  exit 1
fi
