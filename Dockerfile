# The programs of zkrecipes on a small Debian: the guardian (and what else tools/ installs), the examples, the tour.
#
#   docker build --tag zkrecipes .
#   docker run --rm --env ZKRECIPES_SERVER=zk1:2181,zk2:2181,zk3:2181 zkrecipes example_lock
ARG BASE=debian:12-slim

# What a program needs to run. It is not root. tini is process 1: it passes signals on, and buries processes whose
# parents are gone. The kernel drops a signal to process 1 that has no handler for it, so a program in its place would
# not end by SIGTERM.
FROM ${BASE} AS run
RUN apt-get update -q \
  && DEBIAN_FRONTEND=noninteractive apt-get install -q --yes --no-install-recommends \
    libfmt9 libncursesw6 libstdc++6 libzookeeper-st2 tini \
  && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
  && useradd --system --uid 1000 --home-dir /nonexistent --no-create-home zkrecipes \
  && install --directory --owner=zkrecipes /stage
USER zkrecipes
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["ls", "/usr/local/bin"]

FROM ${BASE} AS build
COPY scripts/setup.sh /zkrecipes/scripts/
RUN /zkrecipes/scripts/setup.sh --no-server
COPY . /zkrecipes
# Compilers at the same time: each takes up to 1 GB of memory.
ARG JOBS=2
RUN cmake -S /zkrecipes -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DZKRECIPES_JOIN_SOURCES=ON \
    -DZKRECIPES_BUILD_TESTS=OFF -DZKRECIPES_BUILD_BENCH=OFF \
  && cmake --build /build --parallel "${JOBS}" \
  && cmake --install /build --component tools --prefix /programs --strip \
  && find /build/examples -maxdepth 1 -type f -executable -exec install --strip --target-directory=/programs/bin {} +

FROM run
COPY --from=build /programs/bin/ /usr/local/bin/
