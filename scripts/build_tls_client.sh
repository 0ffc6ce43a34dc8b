#!/usr/bin/env bash
# Builds ZooKeeper's C client with TLS (OpenSSL) and SASL (Cyrus SASL), which Debian's package is built
# without, from Debian's source package, into build/c-client-tls. The preset "tls" uses it. Nothing is
# installed, and no package source of the system is changed. Takes some ten seconds and a download.
#
#   scripts/build_tls_client.sh
#     --output DIR      where to; default: build/c-client-tls (include/, lib/)
#     --source DIR      an unpacked source tree of ZooKeeper, instead of the download
#     --no-sasl         without SASL; default: with it if libsasl2-dev is there
#     --force           build again, even if the library is there
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

output=$root/build/c-client-tls source='' sasl=1 force=0
while (($#)); do
  case $1 in
    --output | --source)
      (($# >= 2)) || { echo "build_tls_client: $1 needs a value" >&2; exit 2; }
      case $1 in --output) output=$(realpath -m "$2") ;; --source) source=$(realpath -m "$2") ;; esac
      shift 2
      ;;
    --no-sasl) sasl=0; shift ;;
    --force) force=1; shift ;;
    -h | --help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "build_tls_client: unknown option $1 (see --help)" >&2; exit 2 ;;
  esac
done

started=$SECONDS
say() { printf 'build_tls_client: %s (%d s)\n' "$*" $((SECONDS - started)); }
die() { printf 'build_tls_client: %s\n' "$@" >&2; exit 1; }

library=$output/lib/libzookeeper_st.so.2
if ((!force)) && [[ -e $library ]]; then
  say "$library is there already; --force builds it again"
  exit 0
fi

# --- What is needed? --------------------------------------------------------------------------

missing=()
need_command() { command -v "$1" >/dev/null || missing+=("$2"); }
have_header() { echo "#include <$1>" | cc -E - >/dev/null 2>&1; }
need_command cc gcc
need_command java default-jre-headless
if command -v cc >/dev/null; then
  have_header openssl/ssl.h || missing+=(libssl-dev)
  if ((sasl)) && ! have_header sasl/sasl.h; then
    say "libsasl2-dev is not installed: building without SASL"
    sasl=0
  fi
fi
if [[ -z $source ]]; then
  need_command apt-get 'apt (or use --source)'
  need_command dpkg-source dpkg-dev
fi
jute=''
for folder in "${ZKRECIPES_JARS:-/usr/share/java}" "$root/build/deps/usr/share/java"; do
  [[ -n $jute || ! -e $folder/zookeeper-jute.jar ]] || jute=$folder/zookeeper-jute.jar
done
[[ -n $jute ]] || missing+=(libzookeeper-java)
((${#missing[@]} == 0)) || die "missing: ${missing[*]}" \
  "Debian: apt-get install ${missing[*]}" "(and libsasl2-dev libsasl2-modules for SASL)"

mkdir -p "$output"
work=$output/work
rm -rf "$work"
mkdir -p "$work"

# --- The source -------------------------------------------------------------------------------

# Where the system gets Debian's packages from, there their sources are, too.
source_lines() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(IDENTIFIER)|$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' |
    awk -F'|' '$1 == "Packages" && ($2 == "Debian" || $2 == "Ubuntu") { print $3, $4, $5 }' | sort -u
}

fetch_source() {
  local lines keyring='' log=$work/apt.log
  lines=$(source_lines)
  [[ -n $lines ]] || die "apt knows no repository of Debian or Ubuntu. Try apt-get update," \
    "or unpack ZooKeeper's source package by hand and use --source."
  for candidate in /usr/share/keyrings/{debian,ubuntu}-archive-keyring.gpg; do
    [[ -n $keyring || ! -e $candidate ]] || keyring="[signed-by=$candidate] "
  done
  while read -r line; do echo "deb-src $keyring$line"; done <<<"$lines" >"$work/sources.list"
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
  # All of apt's state is private: the system's own lists are neither used nor changed.
  local apt=(apt-get -q -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root
    -o Acquire::Retries=3)
  say "fetching the lists of source packages"
  "${apt[@]}" update >"$log" 2>&1 || { cat "$log" >&2; die "apt-get update failed, see above. Is there a network?"; }
  say "fetching the source package of zookeeper"
  (cd "$work" && "${apt[@]}" source --download-only zookeeper) >"$log" 2>&1 ||
    { cat "$log" >&2; die "the source package could not be fetched, see above"; }
  dpkg-source --no-check -x "$work"/zookeeper_*.dsc "$work/source" >"$log" 2>&1 ||
    { cat "$log" >&2; die "the source package could not be unpacked, see above"; }
  source=$work/source
}

[[ -n $source ]] || fetch_source
client=$source/zookeeper-client/zookeeper-client-c
[[ -e $client/src/zookeeper.c ]] || die "$source has no zookeeper-client/zookeeper-client-c/src/zookeeper.c"

# --- The build --------------------------------------------------------------------------------

say "generating the code for the protocol"
mkdir -p "$work/generated"
(cd "$work/generated" &&
  java -cp "$jute" org.apache.jute.compiler.generated.Rcc -l c \
    "$source/zookeeper-jute/src/main/resources/zookeeper.jute") >"$work/jute.log" 2>&1 || true
[[ -e $work/generated/zookeeper.jute.c ]] ||
  { cat "$work/jute.log" >&2; die "the jute compiler failed, see above"; }

: >"$work/generated/config.h"  # What it would define is on the command line.
defines=(-D_GNU_SOURCE '-DPACKAGE_STRING="zookeeper C client"' -DHAVE_OPENSSL_H -DZOO_IPV6_ENABLED -DSOCK_CLOEXEC_ENABLED
  -DPOLL_NFDS_TYPE=nfds_t)
for name in ARPA_INET_H NETDB_H NETINET_IN_H STRING_H SYS_SOCKET_H SYS_TIME_H SYS_UTSNAME_H UNISTD_H \
  GETCWD GETHOSTNAME GETLOGIN GETPWUID_R GETUID POLL; do
  defines+=("-DHAVE_$name=1")
done
# OpenSSL 3 has no FIPS_mode() any more; the client only logs what it says.
if echo '#include <openssl/opensslv.h>
#if OPENSSL_VERSION_NUMBER < 0x30000000L
#error
#endif' | cc -E - >/dev/null 2>&1; then
  defines+=('-DFIPS_mode()=EVP_default_properties_is_fips_enabled(NULL)')
fi
files=(src/{zookeeper,st_adaptor,addrvec,recordio,zk_log,zk_hashtable,hashtable/hashtable,hashtable/hashtable_itr}.c)
libraries=(-lssl -lcrypto)
if ((sasl)); then
  defines+=(-DHAVE_CYRUS_SASL_H)
  files+=(src/zk_sasl.c)
  libraries+=(-lsasl2)
fi

say "compiling$( ((sasl)) && echo ' with SASL')"
objects=()
for file in "${files[@]/#/$client/}" "$work/generated/zookeeper.jute.c"; do
  object=$work/$(basename "$file" .c).o
  cc -O2 -g1 -fPIC -w "${defines[@]}" -I"$client/include" -I"$work/generated" -I"$client/src" -c "$file" \
    -o "$object" || die "$file could not be compiled, see above"
  objects+=("$object")
done
mkdir -p "$output/lib" "$output/include/zookeeper"
rm -f "$output"/lib/libzookeeper_st.*
# The same names as Debian's library exports, and no others.
echo '{ global: zoo_*; zookeeper_*; ZOO*; zerror; log_message; logLevel; is_unrecoverable; allocate_*;
  deallocate_*; local: *; };' >"$work/exports"
cc -shared -Wl,-soname,libzookeeper_st.so.2 -Wl,-z,defs "-Wl,--version-script=$work/exports" -o "$work/library" "${objects[@]}" "${libraries[@]}" ||
  die "the library could not be linked, see above"
cp "$client"/include/{proto,recordio,zookeeper,zookeeper_log,zookeeper_version}.h "$work/generated/zookeeper.jute.h" \
  "$output/include/zookeeper/"
ln -s libzookeeper_st.so.2 "$output/lib/libzookeeper_st.so"
mv "$work/library" "$library"
rm -rf "$work"
say "done: $library. Use it: cmake --preset tls, or -DZooKeeper_ROOT=$output"
