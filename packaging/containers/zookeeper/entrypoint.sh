#!/bin/bash
# Writes the configuration that the environment asks for, then becomes the server.
set -euo pipefail

# A server that is started again keeps its configuration: reconfigurations are written there.
if [[ ! -e /conf/zoo.cfg ]]; then
  # One line of zoo.cfg for each word of the two lists, as in the official image.
  read -ra servers <<<"${ZOO_SERVERS:-server.1=localhost:2888:3888;2181}"
  read -ra extra <<<"${ZOO_CFG_EXTRA:-}"
  {
    echo "dataDir=/data"
    echo "tickTime=${ZOO_TICK_TIME:-2000}"
    echo "initLimit=${ZOO_INIT_LIMIT:-5}"
    echo "syncLimit=${ZOO_SYNC_LIMIT:-2}"
    echo "maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}"
    echo "admin.enableServer=false"
    [[ -z ${ZOO_4LW_COMMANDS_WHITELIST:-} ]] || echo "4lw.commands.whitelist=$ZOO_4LW_COMMANDS_WHITELIST"
    printf '%s\n' "${servers[@]}" "${extra[@]+"${extra[@]}"}"
  } >/conf/zoo.cfg
fi
[[ -e /data/myid ]] || echo "${ZOO_MY_ID:-1}" >/data/myid

jars=/usr/share/java
class_path=$jars/zookeeper.jar:$jars/zookeeper-jute.jar:$jars/slf4j-api.jar:$jars/slf4j-simple.jar
class_path+=:$jars/metrics-core.jar:$jars/snappy-java.jar
# Quick to start and small. No space is reserved for the log of transactions: three servers share one disk.
exec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx256m -Dzookeeper.preAllocSize=4096 \
  -cp "$class_path" org.apache.zookeeper.server.quorum.QuorumPeerMain /conf/zoo.cfg
