"""kazoo as a contender.

kazoo_peer.py HOSTS ROUNDS KIND:PATH:FOLDER:CROWD...

Contends for all of them at once, ROUNDS times each; KIND is lock, rw (kazoo's own names) or curator (the names of
Curator's mutex). Prints "overlaps N", "readers N", "libraries N". See interop_test.cpp for them, and for what is done
in FOLDER.

kazoo_peer.py HOSTS obey PATH

Each line of the input is "NAME VERB", and is said again when NAME, a contender with kazoo's own locks at PATH, has done
that; VERB is read, unread, write or unwrite.
"""
import os
import random
import sys
import threading
import time
import uuid

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock, ReadLock, WriteLock
from kazoo.retry import ForceRetryError


class CuratorLock(Lock):
    """Names its nodes as Curator does, and waits for such nodes."""
    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


class PatientReadLock(ReadLock):
    """Waits for the writers before it. kazoo's own waits for the last writer of all, who may be waiting for it."""

    def _get_predecessor(self, node):
        children = self.client.get_children(self.path)
        if node not in children:
            raise ForceRetryError()
        before = [name for name in children if "__lock__" in name and name[-10:] < node[-10:]]
        return max(before, key=lambda name: name[-10:], default=None)


overlaps = 0
most = {"readers": 0, "libraries": 0}
failures = 0
guard = threading.Lock()


def overlap():
    global overlaps
    with guard:
        overlaps += 1


def note(what, seen):
    with guard:
        most[what] = max(most[what], seen)


def names(folder, prefix):
    return [name for name in os.listdir(folder) if name.startswith(prefix)]


def meet(folder, crowd):
    """Waits until everybody has come: who starts quickly would be done before the others."""
    os.close(os.open(os.path.join(folder, "here-" + uuid.uuid4().hex), os.O_CREAT | os.O_EXCL))
    end = time.monotonic() + 60
    while len(names(folder, "here-")) < crowd:
        if time.monotonic() > end:
            raise RuntimeError("not everybody has come")
        time.sleep(0.01)


def stay_until_seen(folder, look):
    """In its first round each process stays inside until somebody has seen what is to be seen: readers of both
    libraries. On a busy machine that would otherwise be left to chance."""
    seen = os.path.join(folder, "seen")
    end = time.monotonic() + 60
    while not os.path.exists(seen) and time.monotonic() < end:
        if look():
            open(seen, "w").close()
        time.sleep(0.001)


def exclusive(folder):
    writer = os.path.join(folder, "writer")
    try:
        os.close(os.open(writer, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        overlap()
    if names(folder, "reader-"):
        overlap()
    counter = os.path.join(folder, "counter")
    with open(counter) as file:
        value = int(file.read())
    with open(counter, "w") as file:
        file.write(str(value + 1))
    try:
        os.remove(writer)
    except FileNotFoundError:
        overlap()


def shared(folder):
    reader = os.path.join(folder, "reader-kazoo-" + uuid.uuid4().hex)
    os.close(os.open(reader, os.O_CREAT | os.O_EXCL))
    if os.path.exists(os.path.join(folder, "writer")):
        overlap()

    def look():
        readers = names(folder, "reader-")
        libraries = len({name.split("-")[1] for name in readers})
        note("readers", len(readers))
        note("libraries", libraries)
        return libraries == 2

    stay_until_seen(folder, look)
    time.sleep(random.uniform(0.002, 0.005))  # Part of the experiment: long enough for others to come in.
    os.remove(reader)


def contend(client, rounds, job):
    global failures
    kind, path, folder, crowd = job.split(":")
    try:
        meet(folder, int(crowd))
        for i in range(rounds):
            if kind == "rw" and i % 2 == 0:
                with PatientReadLock(client, path):
                    shared(folder)
                continue
            side = {"lock": Lock, "rw": WriteLock, "curator": CuratorLock}[kind]
            with side(client, path):
                exclusive(folder)
    except Exception as error:
        print(job, repr(error))
        with guard:
            failures += 1


def act(lock, verb, line):
    try:
        if verb.startswith("un"):
            lock.release()
        else:
            lock.acquire()
    except Exception as error:
        line += ": " + repr(error)
    print(line + "\n", end="", flush=True)


def obey(client, path):
    locks = {}
    for line in sys.stdin:
        name, verb = line.split()
        kind = ReadLock if verb.endswith("read") else WriteLock
        lock = locks.setdefault((name, kind), kind(client, path))
        threading.Thread(target=act, args=(lock, verb, line.strip()), daemon=True).start()
    client.stop()


def main():
    client = KazooClient(hosts=sys.argv[1], timeout=20)
    client.start(timeout=30)
    if sys.argv[2] == "obey":
        obey(client, sys.argv[3])
        return
    crew = [threading.Thread(target=contend, args=(client, int(sys.argv[2]), job)) for job in sys.argv[3:]]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    client.stop()
    print("overlaps", overlaps)
    for what, seen in most.items():
        print(what, seen)
    sys.exit(1 if failures else 0)


main()
