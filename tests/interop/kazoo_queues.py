"""kazoo's queues and barrier.

kazoo_queues.py HOSTS JOB...

Does one job after the other. A job is VERB:KIND:PATH:COUNT. VERB put: COUNT items "PATH-0", "PATH-1", ...; take: takes
COUNT items, or with COUNT 0 until none comes for a second and a half, and prints "item PATH TEXT" for each. KIND: queue,
locking, priority (a queue; puts with the priorities 4, 3, 2, 1, 0, 4, ...). VERB raise, lower, wait: a Barrier at PATH.
"""
import sys
import time

from kazoo.client import KazooClient
from kazoo.recipe.barrier import Barrier
from kazoo.recipe.queue import LockingQueue, Queue


def put(client, kind, path, count):
    queue = (LockingQueue if kind == "locking" else Queue)(client, path)
    for i in range(count):
        item = ("%s-%d" % (path, i)).encode()
        if kind == "priority":
            queue.put(item, priority=4 - i % 5)
        else:
            queue.put(item)


def take(client, kind, path, count):
    patience = 1.5 if count == 0 else 30
    queue = (LockingQueue if kind == "locking" else Queue)(client, path)
    taken = 0
    while count == 0 or taken < count:
        if kind == "locking":
            item = queue.get(timeout=patience)
            if item is not None and not queue.consume():
                raise RuntimeError("not consumed")
        else:
            end = time.monotonic() + patience
            item = queue.get()
            while item is None and time.monotonic() < end:
                time.sleep(0.01)
                item = queue.get()
        if item is None:
            break
        taken += 1
        print("item", path, item.decode())


def main():
    client = KazooClient(hosts=sys.argv[1], timeout=20)
    client.start(timeout=30)
    for job in sys.argv[2:]:
        verb, kind, path, count = job.split(":")
        if verb == "put":
            put(client, kind, path, int(count))
        elif verb == "take":
            take(client, kind, path, int(count))
        elif verb == "raise":
            Barrier(client, path).create()
        elif verb == "lower":
            Barrier(client, path).remove()
        elif not Barrier(client, path).wait(30):
            sys.exit(2)
    client.stop()
    print("done")


main()
