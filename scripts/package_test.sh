#!/usr/bin/env bash
# Installs the Debian packages in a fresh Debian 12, builds programs with them by CMake and by pkg-config, runs these
# and zkr with a server, purges the packages, and looks for what is left. Needs root, mmdebstrap, and the machine's
# package sources; it changes nothing outside a temporary folder.
#
#   scripts/package_test.sh       scripts/package.sh first
#     --no-build                  with the packages that are in build/packages
#     --keep                      leave the folder, and say where it is
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

build=1 keep=0
while (($#)); do
  case $1 in
    --no-build) build=0; shift ;;
    --keep) keep=1; shift ;;
    -h | --help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "package_test: unknown option $1 (see --help)" >&2; exit 2 ;;
  esac
done
started=$SECONDS
say() { printf 'package_test: %s (%d s)\n' "$*" $((SECONDS - started)); }
die() { printf 'package_test: FAILED: %s\n' "$@" >&2; exit 1; }
((EUID == 0)) || die "needs root, for the root file system of another Debian"
((!build)) || scripts/package.sh
packages=(build/packages/*.deb)
[[ -e ${packages[0]} ]] || die "build/packages is empty: run it without --no-build"
command -v mmdebstrap >/dev/null || scripts/setup.sh --package
series=$(cmake -P cmake/ZkrSeries.cmake)  # The runtime package is named after it.

work=$(mktemp -d)
chmod 755 "$work"
debian=$work/debian
((keep)) || trap 'rm -rf --one-file-system "$work"' EXIT

# --- A fresh Debian -------------------------------------------------------------------------------
# From where this machine gets its packages; mmdebstrap finds the keys.
sources() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(IDENTIFIER)|$(ORIGIN)|$(CODENAME)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' |
    awk -F'|' '$1 == "Packages" && $2 == "Debian" && $3 ~ /^bookworm/ { print "deb", $4, $5, $6 }' | sort -u
}
sources >"$work/sources.list"
[[ -s $work/sources.list ]] || die "apt knows no repository of Debian 12 (apt-get update?)"
say "unpacking Debian 12"
mmdebstrap --quiet --variant=apt --aptopt='APT::Install-Recommends "false"' bookworm "$debian" "$work/sources.list" ||
  die "mmdebstrap, see above"

# With a /proc of its own, which is gone with the command, as is all that this has started.
inside() {
  unshare --mount --pid --fork --kill-child --mount-proc="$debian/proc" chroot "$debian" \
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
ours() {  # What is there under a name of ours, packages' lists aside.
  (cd "$debian" && find . -xdev -path ./proc -prune -o -path ./sys -prune -o -path ./test -prune \
    -o -path ./var/lib/dpkg/info -prune -o \( -name '*zkrecipes*' -o -name '*zkclient*' -o -name '*zktesting*' \
    -o -name '*zksimulation*' -o -name '*zkr' -o -name 'zkr[.-]*' \) -print)
}

mkdir "$debian/test"
cp "${packages[@]}" "$debian/test/"
cp -r tests/install tests/support/with_server.cpp "$debian/test/"

cp /etc/resolv.conf "$debian/etc/"
inside apt-get -qq update >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; die "apt-get update, see above"; }

debs() { local name; for name; do (cd "$debian/test" && printf '/test/%s\n' "$name"_*.deb); done; }
install() {
  # shellcheck disable=SC2046
  inside apt-get -qq install -y --no-install-recommends $(debs "$@") >"$work/apt.log" 2>&1 ||
    { cat "$work/apt.log" >&2; die "apt-get cannot install $*, see above"; }
}

run() {  # $1: what, $2...: a program
  echo "package_test:   $1"
  inside "${@:2}" >"$work/log" 2>&1 || { cat "$work/log" >&2; die "$1, see above"; }
}

# --- The programs alone ---------------------------------------------------------------------------
say "installing the programs"
install zkrecipes-tools
run "zkr" zkr lock --help
for file in share/man/man1/zkr.1.gz share/man/man1/zkrecipes-guardian.1.gz share/bash-completion/completions/zkr \
  share/zsh/vendor-completions/_zkr share/fish/vendor_completions.d/zkr.fish lib/systemd/system/zkr-lead@.service; do
  [[ -s $debian/usr/$file ]] || die "zkrecipes-tools has no /usr/$file"
done

say "installing compiler, CMake and systemd"
inside apt-get -qq install -y --no-install-recommends g++ cmake make pkg-config systemd >"$work/apt.log" 2>&1 ||
  { cat "$work/apt.log" >&2; die "apt-get, see above"; }

run "the unit" systemd-analyze verify --man=no /usr/lib/systemd/system/zkr-lead@.service

# --- Without zktesting ----------------------------------------------------------------------------
say "installing the libraries"
install "libzkrecipes$series" libzkrecipes-dev
inside ldconfig -p | grep -F "libzkrecipes.so.$series " >/dev/null || die "ldconfig does not know the library"
if inside cmake -S /test/install/missing_component -B /test/build/missing >"$work/log" 2>&1; then
  die "CMake found zktesting, which is not installed"
fi
tr -s ' \n' ' ' <"$work/log" | grep 'zktesting is not installed: on Debian install libzkrecipes-testing-dev' >/dev/null ||
  { cat "$work/log" >&2; die "CMake does not say which package is missing"; }

# --- All of them ----------------------------------------------------------------------------------
say "installing all packages"
install libzkrecipes-testing-dev zkrecipes-tools zkrecipes-doc
for package in "${packages[@]}"; do inside dpkg -L "$(dpkg-deb -f "$package" Package)"; done | sort -u >"$work/files"

uses() {  # $1: yes or no, $2: a program
  local seen=no
  if inside readelf --dynamic "$2" | grep 'NEEDED.*libzkrecipes\.so' >/dev/null; then seen=yes; fi
  [[ $seen == "$1" ]] || die "$2: shared library in use: $seen, but $1 was wanted"
}

say "building programs"
consumer=/test/install/consumer.cpp
for form in shared static; do
  run "find_package, $form: configure" cmake -S /test/install/find_package -B "/test/build/$form" \
    -DCONSUMER_FORM=$form -DCONSUMER_WITH_ASIO=OFF -DCONSUMER_VERSION="$series"
  run "find_package, $form: build" cmake --build "/test/build/$form"
  run "find_package, $form: run" "/test/build/$form/consumer"
  run "find_package, $form: a simulated world" "/test/build/$form/simulation"
done
uses yes /test/build/shared/consumer
uses yes /test/build/shared/simulation
uses no /test/build/static/consumer

run "pkg-config: build" sh -c "g++ -std=c++20 $consumer -o /test/build/pc \$(pkg-config --cflags --libs zkrecipes zktesting)"
run "pkg-config: run" /test/build/pc
uses yes /test/build/pc
run "pkg-config --static: build" sh -c "g++ -std=c++20 $consumer -o /test/build/pc_static \
  \$(pkg-config --static --cflags --libs zkrecipes zktesting | sed 's/-l\\(zk[a-z]*\\)/-l:lib\\1.a/g')"
run "pkg-config --static: run" /test/build/pc_static
uses no /test/build/pc_static

# --- With a server --------------------------------------------------------------------------------
# From the packages that libzkrecipes-testing-dev recommends.
say "installing a server"
inside apt-get -qq install -y --no-install-recommends default-jre-headless libzookeeper-java >"$work/apt.log" 2>&1 ||
  { cat "$work/apt.log" >&2; die "apt-get cannot install the server, see above"; }
run "zktesting: build" sh -c "g++ -std=c++20 /test/with_server.cpp -o /test/build/with_server \
  \$(pkg-config --cflags --libs zktesting)"
run "zkr with a server" /test/build/with_server /test/install/zkr.sh

# The library and the program that it starts are in different packages.
run "guardian: build" sh -c "g++ -std=c++20 /test/install/guardian.cpp -o /test/build/guardian \
  \$(pkg-config --cflags --libs zkrecipes)"
run "guardian: run" /test/build/guardian
inside apt-get -qq purge -y zkrecipes-tools >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; die "apt-get purge"; }
if inside /test/build/guardian >/dev/null 2>&1; then die "a guardian was started, but zkrecipes-tools is not installed"; fi

# --- Nothing is left ------------------------------------------------------------------------------
say "purging the packages"
inside apt-get -qq purge -y "libzkrecipes$series" libzkrecipes-dev libzkrecipes-testing-dev zkrecipes-doc >"$work/apt.log" 2>&1 ||
  { cat "$work/apt.log" >&2; die "apt-get purge, see above"; }
left=$(while read -r file; do [[ -d $debian$file && ! -L $debian$file ]] || [[ ! -e $debian$file && ! -L $debian$file ]] ||
  echo "$file"; done <"$work/files"; ours; inside ldconfig -p | grep -E 'libzk(client|recipes)' || true)
[[ -z $left ]] || die "left behind:" "$left"
((!keep)) || say "left: $work"
say "done: installed, used, purged"
