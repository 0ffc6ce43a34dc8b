"""kazoo as a contender of the benchmark "locks"; see lock_peer.hpp for what it reads and prints."""
import os
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock, ReadLock

DRAIN_SESSIONS = 8
hosts, folder = sys.argv[1], sys.argv[2]
clients = []
waiters = []
held = None
threading.stack_size(256 * 1024)


def client(i):
    while len(clients) <= i:
        one = KazooClient(hosts=hosts, timeout=30)
        one.start(timeout=30)
        clients.append(one)
    return clients[i]


def cpu_us():
    times = os.times()
    return int((times.user + times.system) * 1e6)


def run(count, millis, kind, name):
    cycles = [0] * count
    state = {"inside": 0, "overlaps": 0}
    barrier = threading.Barrier(count + 1)
    locks = [kind(client(i), folder + "/" + name) for i in range(count)]
    end = [0.0]
    failures = []

    def work(me):
        try:
            barrier.wait()
            while time.monotonic() < end[0]:
                with locks[me]:
                    state["inside"] += 1
                    if kind is Lock and state["inside"] != 1:
                        state["overlaps"] += 1
                    cycles[me] += 1
                    state["inside"] -= 1
        except Exception as error:
            failures.append(error)

    crew = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in crew:
        thread.start()
    cpu, begin = cpu_us(), time.monotonic()
    end[0] = begin + millis / 1000
    barrier.wait()
    for thread in crew:
        thread.join()
    if failures:
        raise failures[0]
    wall = int((time.monotonic() - begin) * 1e6)
    return "done %d %d %d %d %d %d" % (sum(cycles), wall, cpu_us() - cpu, min(cycles), max(cycles), state["overlaps"])


def wait_and_release(lock):
    with lock:
        pass


def queue(count):
    global held
    path = folder + "/drain"
    held = Lock(client(0), path)
    held.acquire()
    waiters.clear()
    for i in range(count):
        thread = threading.Thread(target=wait_and_release, args=(Lock(client(i % DRAIN_SESSIONS), path),))
        thread.start()
        waiters.append(thread)
    while len(client(0).get_children(path)) <= count:
        time.sleep(0.02)
    time.sleep(0.3)  # Until the last ones have set their watches.


def drain():
    cpu, begin = cpu_us(), time.monotonic()
    held.release()
    for thread in waiters:
        thread.join()
    wall = int((time.monotonic() - begin) * 1e6)
    return "done %d %d %d 1 1 0" % (len(waiters), wall, cpu_us() - cpu)


def obey(line):
    words = line.split()
    numbers = [int(word) for word in words[1:]]
    if words[0] == "cycle":
        return run(1, numbers[0], Lock, "cycle")
    if words[0] == "contend":
        return run(numbers[0], numbers[1], Lock, "contend")
    if words[0] == "readers":
        return run(numbers[0], numbers[1], ReadLock, "readers")
    if words[0] == "drain":
        return drain()
    if words[0] != "queue":
        raise ValueError(line)
    queue(numbers[0])
    return "queued"


try:
    client(0)
    print("ready", flush=True)
    for command in sys.stdin:
        print(obey(command), flush=True)
except Exception as error:
    print("error", repr(error), flush=True)
os._exit(0)
