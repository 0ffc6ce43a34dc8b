#!/usr/bin/env bash
# Builds the images that docker-compose.yml starts, on a machine that has a Docker engine but no registry. Its output
# are variables for the compose file:
#
#   eval "$(scripts/docker_images.sh)"   then: docker-compose up
#     --programs FOLDER                  our image with the programs of a build (build/dev), made on Debian 12;
#                                        otherwise our Dockerfile compiles them, for minutes
#     --output FILE                      write the variables there, and the builder's messages to the standard output
#
# An image that is there already, debian:12-slim or zookeeper:3.9, is used. In the place of one that is not, a stand-in
# is built, from the machine's own package sources; its name begins with "stand-in-". Takes root for mmdebstrap.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

programs='' output=''
while (($#)); do
  case $1 in
    --programs | --output)
      (($# >= 2)) || { echo "docker_images: $1 needs a value" >&2; exit 2; }
      case $1 in --programs) programs=$2 ;; --output) output=$2 ;; esac
      shift 2
      ;;
    -h | --help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "docker_images: unknown option $1 (see --help)" >&2; exit 2 ;;
  esac
done

# The variables are all that goes to the standard output, unless they have a file of their own.
if [[ -n $output ]]; then exec 3>"$output"; else exec 3>&1 1>&2; fi
say() { printf 'docker_images: %s\n' "$*"; }
die() { printf 'docker_images: %s\n' "$@" >&2; exit 1; }
have_image() { docker image inspect "$1" >/dev/null 2>&1; }

docker info >/dev/null 2>&1 || die "no Docker engine answers (docker info)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# --- Debian ---------------------------------------------------------------------------------------

# From where this machine gets its packages; mmdebstrap finds the keys.
sources() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(IDENTIFIER)|$(ORIGIN)|$(CODENAME)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' |
    awk -F'|' '$1 == "Packages" && $2 == "Debian" && $3 ~ /^bookworm/ { print "deb", $4, $5, $6 }' | sort -u
}

base=debian:12-slim
have_image "$base" || base=stand-in-debian:12-slim
if ! have_image "$base"; then
  say "building $base"
  command -v mmdebstrap >/dev/null || scripts/setup.sh --package
  sources >"$work/sources.list"
  [[ -s $work/sources.list ]] || die "apt knows no repository of Debian 12 (apt-get update?)"
  # dpkg need not wait for the disk: an image that was not finished is thrown away. No guides, no translations: as in
  # the official image.
  mmdebstrap --quiet --variant=apt --include=usr-is-merged --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='force-unsafe-io' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    bookworm "$work/debian.tar" "$work/sources.list" || die "mmdebstrap, see above"
  docker import "$work/debian.tar" "$base" >/dev/null
  rm "$work/debian.tar"
fi

build() { docker build --build-arg "BASE=$base" "$@" || die "docker build, see above"; }

# --- The servers ----------------------------------------------------------------------------------

servers=zookeeper:3.9
have_image "$servers" || servers=stand-in-zookeeper:debian-12
if [[ $servers == stand-in-* ]]; then
  say "building $servers"
  build --tag "$servers" packaging/containers/zookeeper
fi
echo "export ZOOKEEPER_IMAGE=$servers" >&3

# --- Ours -----------------------------------------------------------------------------------------

ours=zkrecipes
if [[ -z $programs ]]; then
  say "building $ours"
  build --tag "$ours" .
else
  # The Dockerfile's first stage, with those programs on top.
  say "building $ours with the programs of $programs"
  ours=zkrecipes-of-build
  mkdir "$work/programs"
  find "$programs/tools" "$programs/examples" -maxdepth 1 -type f -executable \
    -exec install --strip --target-directory="$work/programs" {} +
  [[ -e $work/programs/tour ]] || die "there is no program tour in $programs: build it"
  build --target run --tag "$ours-base" .
  printf 'FROM %s\nCOPY . /usr/local/bin/\n' "$ours-base" >"$work/Dockerfile"
  build --tag "$ours" --file "$work/Dockerfile" "$work/programs"
fi
echo "export DEBIAN_IMAGE=$base ZKRECIPES_IMAGE=$ours" >&3
