"""kazoo as a contender: kazoo_bench.py HOSTS PATH KIND PAIRS BACKLOG. KIND: queue, locking, barrier (PAIRS members), count
(PAIRS clients), open-tree, hold-tree, change, partition (PAIRS members, BACKLOG partitions), partition-member (one more of
those, to be killed).

Driven through standard input and output as raw_program.hpp says.
"""
import itertools
import os
import queue
import subprocess
import sys
import threading
import time
import uuid

from kazoo.client import KazooClient
from kazoo.recipe.barrier import DoubleBarrier
from kazoo.recipe.cache import TreeCache, TreeEvent
from kazoo.recipe.queue import LockingQueue, Queue

ITEM = bytes(64)
hosts, path, kind, pairs, backlog = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
running = threading.Event()
room = threading.Semaphore(0)
taken = 0
guard = threading.Lock()


def client():
    made = KazooClient(hosts=hosts, timeout=4 if kind == "partition-member" else 20)
    made.start(timeout=30)
    return made


def count():
    global taken
    with guard:
        taken += 1


def daemon(work):
    def run():
        try:
            work()
        except Exception as error:
            print("error", repr(error), flush=True)
            os._exit(1)

    threading.Thread(target=run, daemon=True).start()


def pair():
    kind_of_queue = LockingQueue if kind == "locking" else Queue
    out = kind_of_queue(client(), path)
    into = kind_of_queue(client(), path)

    def consume():
        while True:
            running.wait()
            item = into.get(timeout=0.1) if kind == "locking" else into.get()
            if item is None:
                time.sleep(0.0005)
                continue
            if kind == "locking" and not into.consume():
                continue
            count()
            room.release()

    def produce():
        while True:
            room.acquire()
            out.put(ITEM)

    return out, consume, produce


def member(first):
    own = client()

    def work():
        while True:
            running.wait()
            barrier = DoubleBarrier(own, path, pairs)
            barrier.enter()
            barrier.leave()
            if first:
                count()

    return work


def opened(own):
    ready = threading.Event()
    cache = TreeCache(own, path)
    cache.listen(lambda event: ready.set() if event.event_type == TreeEvent.INITIALIZED else None)
    cache.start()
    ready.wait()
    return cache


def view():
    own = client()
    if kind == "open-tree":
        return lambda: opened(own).close()
    if kind == "hold-tree":
        opened(own)
        return lambda: time.sleep(0.001)
    # One session changes the node, the watch of another one sees it; then the next change.
    seen = queue.Queue()
    client().DataWatch(path, lambda data, stat: seen.put(data) if data is not None else None)
    numbers = itertools.count(time.time_ns())

    def change():
        following = str(next(numbers)).encode()
        own.set(path, following)
        while seen.get() != following:
            pass

    return change


def adder():
    counter = client().Counter(path)

    def add():
        counter.__add__(1)

    return add


class Partitioner:
    def __init__(self):
        self.owned = None
        self.leaving = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        own = client()
        names = [str(i) for i in range(backlog)]
        partitioner = own.SetPartitioner(path, names, identifier=uuid.uuid4().hex, time_boundary=1)
        while not self.leaving.is_set():
            if partitioner.failed:
                print("error", "the partitioner failed", flush=True)
                os._exit(1)
            if partitioner.release:
                self.owned = None
                partitioner.release_set()
            elif partitioner.acquired:
                self.owned = len(list(partitioner))
                time.sleep(0.005)
            else:
                partitioner.wait_for_acquire(0.1)
        partitioner.finish()
        own.stop()
        own.close()

    def leave(self):
        self.leaving.set()
        self.thread.join()


def in_force(group):
    while any(one.owned is None for one in group) or sum(one.owned for one in group) != backlog:
        time.sleep(0.005)


class VictimPartitioner:
    """A member in a process of its own."""

    def __init__(self):
        self.owned = None
        command = [sys.executable, __file__, hosts, path, "partition-member", str(pairs), str(backlog)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            self.owned = int(line) if line.strip() != "None" else None

    def kill(self):
        self.process.kill()
        self.process.wait()


def partition_member():
    def end_with_input():
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=end_with_input, daemon=True).start()
    member, said = Partitioner(), ()
    while True:
        if member.owned != said:
            said = member.owned
            print(said, flush=True)
        time.sleep(0.005)


class Members:
    def __init__(self):
        self.group = [Partitioner() for _ in range(pairs)]
        in_force(self.group)

    def join_and_leave(self):
        newcomer = Partitioner()
        in_force(self.group + [newcomer])
        joined = time.monotonic()
        newcomer.leave()
        in_force(self.group)
        return joined

    def each_change(self):
        """Milliseconds until all have what they shall have, after a join, a leave and a kill."""
        begin = time.monotonic()
        joined = self.join_and_leave()
        left = time.monotonic()
        victim = VictimPartitioner()
        in_force(self.group + [victim])
        before = time.monotonic()
        victim.kill()
        in_force(self.group)
        return [int(1e3 * took) for took in (joined - begin, left - joined, time.monotonic() - before)]


def partitions(members):
    print("ready", flush=True)
    for line in sys.stdin:
        if line.split()[0] == "each":
            print(*members.each_change(), flush=True)
            continue
        cpu, begin, done = time.process_time(), time.monotonic(), 0
        while time.monotonic() - begin < int(line.split()[1]) / 1000:
            members.join_and_leave()
            done += 1
        print("done", done, int((time.monotonic() - begin) * 1e6), int((time.process_time() - cpu) * 1e6), flush=True)
    os._exit(0)


def cycles(work):
    while True:
        running.wait()
        work()
        count()


if kind == "partition-member":
    partition_member()
elif kind == "partition":
    partitions(Members())
elif kind in ("open-tree", "hold-tree", "change"):
    once = view()
    daemon(lambda: cycles(once))
elif kind == "count":
    for adding in [adder() for _ in range(pairs)]:
        daemon(lambda adding=adding: cycles(adding))
elif kind == "barrier":
    for i in range(pairs):
        daemon(member(i == 0))
else:
    crew = [pair() for _ in range(pairs)]
    for i in range(backlog):
        crew[i % pairs][0].put(ITEM)
    for _, consume, produce in crew:
        daemon(consume)
        daemon(produce)
    for _ in range(64 * pairs):
        room.release()
print("ready", flush=True)
for line in sys.stdin:
    cpu, begin, before = time.process_time(), time.monotonic(), taken
    running.set()
    time.sleep(int(line.split()[1]) / 1000)
    done = taken - before
    running.clear()
    print("done", done, int((time.monotonic() - begin) * 1e6), int((time.process_time() - cpu) * 1e6), flush=True)
os._exit(0)
