#!/usr/bin/env bash
# Installs what the project is built and tested with (Debian 12, apt). Run as often as you like: it
# does nothing, quickly, when nothing is missing. It never removes or replaces a package: what
# cannot be installed next to the packages that are there is unpacked into build/deps, where the
# build looks first.
#
#   scripts/setup.sh            compiler, CMake, libraries, a ZooKeeper server
#   scripts/setup.sh --no-server  without Java and the server: what building takes
#   scripts/setup.sh --tests    also a JDK, Curator, kazoo, spin, zsh, fish, abidw, docker-compose, Prometheus,
#                               prometheus-cpp, <sys/sdt.h>, gdb, and the headers of an older Boost: where one of them cannot be had, the
#                               tests that need it are skipped
#   scripts/setup.sh --lint     also clang-format, clang-tidy
#   scripts/setup.sh --clang    also clang++ and lld (presets clang, clang-asan, clang-tsan, fuzz)
#   scripts/setup.sh --bench    also the multi-threaded C client, unpacked into build/deps
#   scripts/setup.sh --docs     also Sphinx, Doxygen, PlantUML (scripts/docs.sh)
#   scripts/setup.sh --package  also build-essential, debhelper, lintian, mmdebstrap, abidw (scripts/package.sh, package_test.sh)
#   scripts/setup.sh --tls      also what scripts/build_tls_client.sh needs (preset tls)
#   scripts/setup.sh --all      all of these
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=$root/build/deps
# Debian's default Boost, in a folder of its own: only the test that asks for it may see it.
old_boost=$deps/boost-1.74

with_server=1 with_tests=0 with_lint=0 with_clang=0 with_bench=0 with_docs=0 with_package=0 with_tls=0
for argument in "$@"; do
  case $argument in
    --no-server) with_server=0 ;;
    --tests) with_tests=1 ;;
    --lint) with_lint=1 ;;
    --clang) with_clang=1 ;;
    --bench) with_bench=1 ;;
    --docs) with_docs=1 ;;
    --package) with_package=1 ;;
    --tls) with_tls=1 ;;
    --all) with_tests=1 with_lint=1 with_clang=1 with_bench=1 with_docs=1 with_package=1 with_tls=1 ;;
    -h | --help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "setup: unknown option $argument (see --help)" >&2; exit 2 ;;
  esac
done

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$@" >&2; exit 1; }

# --- What is missing? Looks at files and commands, not at packages: any source of them will do. ---

have_command() { command -v "$1" >/dev/null; }

have_file() {  # a pattern below usr/, in build/deps or in the system
  local prefix
  for prefix in "$deps/usr" /usr /usr/local; do
    compgen -G "$prefix/$1" >/dev/null && return 0
  done
  return 1
}

have_library() { have_file "lib*/lib$1.so" || have_file "lib/*/lib$1.so" ||
                 have_file "lib*/lib$1.a" || have_file "lib/*/lib$1.a"; }

have_boost() {  # 1.81 or newer
  local prefix line
  for prefix in "$deps/usr" /usr/local /usr; do
    [[ -r $prefix/include/boost/version.hpp ]] || continue
    while read -r line; do
      [[ $line =~ ^#define\ BOOST_VERSION\ ([0-9]+) ]] && ((BASH_REMATCH[1] >= 108100)) && return 0
    done <"$prefix/include/boost/version.hpp"
  done
  return 1
}

have_old_boost() { [[ -e $old_boost/usr/include/boost/version.hpp ]]; }

have_java() { [[ -x ${ZKRECIPES_JAVA:-} ]] || have_command java; }

have_server() {  # all of it in one folder
  local folder jar
  for folder in "${ZKRECIPES_JARS:-/usr/share/java}" "$deps/usr/share/java"; do
    for jar in zookeeper zookeeper-jute slf4j-api metrics-core snappy-java; do
      [[ -e $folder/$jar.jar ]] || continue 2
    done
    return 0
  done
  return 1
}

have_curator() { have_file share/java/curator-recipes.jar || [[ -e ${ZKRECIPES_JARS:-}/curator-recipes.jar ]]; }

have_curator_discovery() {
  have_file share/java/curator-x-discovery.jar || [[ -e ${ZKRECIPES_JARS:-}/curator-x-discovery.jar ]]
}

have_kazoo() {
  have_file lib/python3/dist-packages/kazoo/__init__.py || python3 -c 'import kazoo' 2>/dev/null
}

have_prometheus() {
  if have_command prometheus && have_command promtool; then return 0; fi
  [[ -x $deps/usr/bin/prometheus && -x $deps/usr/bin/promtool ]]
}

# dpkg-buildpackage asks for the package itself.
have_build_essential() { [[ $(dpkg-query -W -f '${Status}' build-essential 2>/dev/null) == *' installed' ]]; }

have_sdt() { have_file include/sys/sdt.h || have_file 'include/*/sys/sdt.h'; }

have_docker_compose() { have_command docker-compose || docker compose version >/dev/null 2>&1; }

missing=() optional=()
need() { local package=$1; shift; "$@" || missing+=("$package"); }
want() { local package=$1; shift; "$@" || optional+=("$package"); }  # the setup does not fail without it

find_missing() {
  missing=() optional=()
  need g++ have_command g++
  need cmake have_command cmake
  need ninja-build have_command ninja
  need pkg-config have_command pkg-config
  need libzookeeper-st-dev have_library zookeeper_st
  need libboost1.81-dev have_boost
  need libfmt-dev have_library fmt
  need nlohmann-json3-dev have_file include/nlohmann/json.hpp
  need libcli11-dev have_file include/CLI/CLI.hpp
  need libtomlplusplus-dev have_file include/toml++/toml.h
  need libncurses-dev have_library ncursesw
  need libgtest-dev have_library gtest_main
  need tzdata have_file share/zoneinfo/Europe/Berlin
  if ((with_server)); then
    need libzookeeper-java have_server
    need default-jre-headless have_java
  fi
  if ((with_tests)); then
    # For the tests beside other libraries.
    want default-jdk-headless have_command javac
    want libcurator-recipes-java have_curator
    want libcurator-discovery-java have_curator_discovery
    want python3-kazoo have_kazoo
    # For the model of the two-phase commit.
    want spin have_command spin
    # For completions.
    want zsh have_command zsh
    want fish have_command fish
    # For the layout of public types.
    want abigail-tools have_command abidw
    # For docker-compose.yml.
    want docker-compose have_docker_compose
    # For the alert rules, the dashboard, and the service that it looks at.
    want prometheus have_prometheus
    # For the probes, and the test that stops at them.
    want systemtap-sdt-dev have_sdt
    want gdb have_command gdb
    # For the example of a bridge to it.
    want prometheus-cpp-dev have_file include/prometheus/collectable.h
    # For the test of a program that has another Boost.
    want libboost1.74-dev have_old_boost
  fi
  if ((with_lint)); then
    need clang-format have_command clang-format
    need clang-tidy have_command clang-tidy
  fi
  if ((with_clang)); then
    need clang have_command clang++
    need lld have_command ld.lld
    # For the sanitizers and the preset "fuzz".
    need libclang-rt-14-dev have_file 'lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a'
  fi
  if ((with_bench)); then need libzookeeper-mt-dev have_library zookeeper_mt; fi
  if ((with_docs)); then
    need python3-sphinx have_command sphinx-build
    need python3-myst-parser have_file lib/python3/dist-packages/myst_parser/__init__.py
    need python3-breathe have_file lib/python3/dist-packages/breathe/__init__.py
    need furo have_file lib/python3/dist-packages/furo/__init__.py
    need doxygen have_command doxygen
    need plantuml have_command plantuml
  fi
  if ((with_package)); then
    need build-essential have_build_essential
    need debhelper have_command dh
    need systemtap-sdt-dev have_sdt
    need lintian have_command lintian
    need mmdebstrap have_command mmdebstrap
    need abigail-tools have_command abidw
  fi
  if ((with_tls)); then
    need libssl-dev have_file 'include/openssl/ssl.h'
    need libsasl2-dev have_file 'include/sasl/sasl.h'
    need libsasl2-modules have_file 'lib/*/sasl2/libdigestmd5.so'
    need dpkg-dev have_command dpkg-source
    need openssl have_command openssl
  fi
}

skip() { say "skipping $1: the tests that need it are skipped ($2)"; }  # $1: an optional package, $2: why

skip_all() {  # $1: why
  local package
  for package in "${optional[@]+"${optional[@]}"}"; do skip "$package" "$1"; done
}

download_and_unpack() {  # $1: a package, $2: a folder
  local work status=1
  work=$(mktemp -d)
  # apt-get download runs as its own user where it can.
  chmod 755 "$work"
  if (cd "$work" && apt-get download -q -o APT::Sandbox::User=root "$1"); then
    mkdir -p "$2"
    dpkg-deb -x "$work/$1"_*.deb "$2" && status=0
  fi
  rm -rf "$work"
  return "$status"
}

# Where to unpack what never goes into the system: the older Boost would take the place of the newer one there, and
# Prometheus would run as a service.
folder_of() {
  case $1 in
    libboost1.74-dev) echo "$old_boost" ;;
    prometheus) echo "$deps" ;;
    *) return 1 ;;
  esac
}

unpack_optional() {  # needs no root
  local package folder rest=()
  for package in "${optional[@]+"${optional[@]}"}"; do
    if ! folder=$(folder_of "$package"); then
      rest+=("$package")
      continue
    fi
    say "unpacking $package into ${folder#"$root/"}"
    download_and_unpack "$package" "$folder" || skip "$package" "apt-get cannot download it"
  done
  optional=("${rest[@]+"${rest[@]}"}")
}

find_missing
if ((${#missing[@]} + ${#optional[@]} == 0)); then
  say "nothing is missing"
  exit 0
fi
((${#missing[@]} == 0)) || say "missing: ${missing[*]}"
((${#optional[@]} == 0)) || say "missing, for some tests: ${optional[*]}"

# --- How may we install? ---

if ! have_command apt-get || ! have_command dpkg-deb; then
  skip_all "this is not Debian"
  ((${#missing[@]})) || exit 0
  die "this is not Debian (no apt-get). Install by hand what these Debian packages contain:" \
    "  ${missing[*]}"
fi

as_root=()
may_install=1
if ((EUID != 0)); then
  # Nobody is asked for a password because of optional packages alone.
  if have_command sudo && { sudo -n true 2>/dev/null || [[ ${#missing[@]} -gt 0 && -t 0 && -t 1 ]]; }; then
    as_root=(sudo)
  else
    may_install=0
    unpack_optional
    skip_all "it takes root to install it"
    ((${#missing[@]})) || exit 0
    say "neither root nor sudo: unpacking what can be used without being installed"
  fi
fi
export DEBIAN_FRONTEND=noninteractive
# Through env, because sudo drops the variable.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)

# --- Sort the packages: install, or unpack (both lists keep the order). ---

# The packages of which a copy in build/deps serves as well, and those that go with them.
unpack_list() {
  case $1 in
    libzookeeper-st-dev) echo libzookeeper-st-dev libzookeeper-st2 ;;
    libzookeeper-mt-dev) echo libzookeeper-mt-dev libzookeeper-mt2 ;;
    libboost1.81-dev) echo libboost1.81-dev ;;
    libfmt-dev) echo libfmt-dev libfmt9 ;;
    nlohmann-json3-dev) echo nlohmann-json3-dev ;;
    libcli11-dev) echo libcli11-dev ;;
    libtomlplusplus-dev) echo libtomlplusplus-dev ;;
    libncurses-dev) echo libncurses-dev libncursesw6 libtinfo6 ;;
    libgtest-dev) echo libgtest-dev ;;
    libzookeeper-java)
      echo libzookeeper-java libslf4j-java libdropwizard-metrics-java libsnappy-java
      ;;
    *) return 1 ;;
  esac
}

would_remove() {  # the packages that installing $@ would remove, or "?" if apt cannot do it
  local plan
  if ! plan=$(apt-get install -s -q --no-install-recommends "$@" 2>/dev/null); then
    echo '?'
    return
  fi
  awk '/^Remv /{printf "%s ", $2}' <<<"$plan"
}

sort_packages() {
  install=() unpack=()
  local package gone
  for package in "${missing[@]}"; do
    # Two flavours of the C client cannot both be installed, so the benchmarks' one never is.
    if ((!may_install)) || [[ $package == libzookeeper-mt-dev ]]; then
      unpack+=("$package")
      continue
    fi
    gone=$(would_remove "$package")
    if [[ -z $gone ]]; then
      install+=("$package")
    elif unpack_list "$package" >/dev/null; then
      [[ $gone == '?' ]] || say "$package cannot be installed next to: $gone(these stay)"
      unpack+=("$package")
    elif [[ $gone == '?' ]]; then
      die "apt-get cannot install $package. Is there a network, and a package source for it?" \
          "Details: apt-get install -s $package"
    else
      die "installing $package would remove: $gone" "Nothing was changed. Install it by hand."
    fi
  done
  if ((${#install[@]})); then
    gone=$(would_remove "${install[@]}")
    [[ -z $gone ]] || die "installing ${install[*]} together would remove: $gone" \
                          "Nothing was changed. Install them by hand."
  fi
}

sort_optional() {  # to install: those that go with what is there and with what is going to be there
  extra=()
  local package gone
  for package in "${optional[@]+"${optional[@]}"}"; do
    gone=$(would_remove "${install[@]+"${install[@]}"}" "${extra[@]+"${extra[@]}"}" "$package")
    if [[ -z $gone ]]; then
      extra+=("$package")
    elif [[ $gone == '?' ]]; then
      skip "$package" "apt-get cannot install it"
    else
      skip "$package" "installing it would remove: ${gone% }"
    fi
  done
}

unpack_into_deps() {  # $@: packages
  local package
  for package in "$@"; do
    say "unpacking $package into build/deps"
    download_and_unpack "$package" "$deps" ||
      die "could not download $package. Is there a network? Then try: apt-get update"
  done
  cat >"$deps/deps.cmake" <<'CMAKE'
# Written by scripts/setup.sh: the build looks into the unpacked packages first.
list(PREPEND CMAKE_PREFIX_PATH "${CMAKE_CURRENT_LIST_DIR}/usr")
CMAKE
}

# --- Do it. ---

if ((may_install)); then
  say "step 1 of 3: refreshing the package lists"
  "${apt[@]}" update || say "apt-get update failed; going on with the lists that are there"
else
  say "step 1 of 3: package lists: using those that are there"
fi

((!may_install)) || unpack_optional
sort_packages
extra=()
((!may_install)) || sort_optional
if ((${#install[@]} + ${#extra[@]})); then
  all=("${install[@]+"${install[@]}"}" "${extra[@]+"${extra[@]}"}")
  say "step 2 of 3: installing ${all[*]}"
else
  say "step 2 of 3: nothing to install"
fi
if ((${#install[@]})); then
  "${apt[@]}" install -y --no-install-recommends --no-remove "${install[@]}" ||
    die "apt-get could not install: ${install[*]}" \
        "Is there a network? Its own message is above this line."
fi
# One by one, so that one that fails takes no other with it.
for package in "${extra[@]+"${extra[@]}"}"; do
  "${apt[@]}" install -y --no-install-recommends --no-remove "$package" ||
    skip "$package" "apt-get could not install it, its own message is above this line"
done

wanted=() by_hand=()
for package in "${unpack[@]+"${unpack[@]}"}"; do
  if list=$(unpack_list "$package"); then
    read -ra list <<<"$list"
    wanted+=("${list[@]}")
  else
    by_hand+=("$package")
  fi
done
if ((${#by_hand[@]})); then
  die "these must be installed, which needs root. Run as root, then start again:" \
      "  apt-get update && apt-get install --no-install-recommends ${missing[*]}"
fi
if ((${#wanted[@]})); then
  say "step 3 of 3: unpacking ${wanted[*]}"
  unpack_into_deps "${wanted[@]}"
else
  say "step 3 of 3: nothing to unpack"
fi

hash -r
find_missing
((${#missing[@]} == 0)) || die "still missing after the installation: ${missing[*]}"
say "done"
