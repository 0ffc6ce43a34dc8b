#!/bin/sh
# Checks what installed programs ask of the system: our libraries are in them, and what else they need is in run-time
# packages of Debian. Arguments: readelf, programs.
set -eu

readelf=$1
shift
# libc6, libgcc-s1, libstdc++6, libfmt9, libncursesw6, libtinfo6, libzookeeper-st2.
allowed='libc\.so|libm\.so|ld-linux|libgcc_s\.so|libstdc\+\+\.so|libfmt\.so|libncursesw\.so|libtinfo\.so|libzookeeper_st\.so'
bad=0
for program; do
  needed=$("$readelf" --dynamic "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p')
  case $needed in
    *libc.so*) ;;
    *)
      echo "$program: readelf tells nothing of it"
      exit 1
      ;;
  esac
  others=$(printf '%s\n' "$needed" | grep -vE "^($allowed)" || :)
  [ -z "$others" ] || {
    printf '%s needs:\n%s\n' "$program" "$others"
    bad=1
  }
done
exit $bad
