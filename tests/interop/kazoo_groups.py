"""kazoo's side of group_interop_test.cpp.

kazoo_groups.py HOSTS TIMEOUT

TIMEOUT: of the session, in seconds. Ends with its input, of which each line is a command; each is answered by lines of
which the last one is "done". KIND is Party or ShallowParty.

    join KIND PATH [ID]    prints the name of the new member's node
    leave NAME             of a member's node; prints True if it was there
    list KIND PATH         prints the identifiers, in order, one line each
    count KIND PATH        prints how many there are

    share PATH ID PARTITION,...   makes a SetPartitioner
    own ID PARTITION,...          waits until it has acquired these and no others, and prints what it has; it gives back
                                  what it has whenever it is asked to
    finish ID                     leaves
"""
import sys
import time

from kazoo.client import KazooClient
from kazoo.recipe.party import Party, ShallowParty

kinds = {"Party": Party, "ShallowParty": ShallowParty}


partitioners = {}


def own(partitioner, wanted):
    """What it has in the end."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if partitioner.failed:
            return ["failed"]
        if partitioner.release:
            partitioner.release_set()
        elif partitioner.acquired and list(partitioner) == wanted:
            break
        else:
            time.sleep(0.005)  # It tells nobody when it has to release.
    return list(partitioner)


def share(client, path, identifier, names):
    partitioners[identifier] = client.SetPartitioner(path, set=names.split(","), identifier=identifier,
                                                     time_boundary=0.2)
    return []


def finish(identifier):
    partitioners.pop(identifier).finish()
    return []


def obey(client, joined, verb, *words):
    if verb == "share":
        return share(client, *words)
    if verb == "own":
        return own(partitioners[words[0]], words[1].split(","))
    if verb == "finish":
        return finish(words[0])
    if verb == "leave":
        return [str(joined.pop(words[0]).leave())]
    kind, path, *identifier = words
    party = kinds[kind](client, path, *identifier)
    if verb == "list":
        return sorted(party)
    if verb == "count":
        return [str(len(party))]
    party.join()
    joined[party.node] = party
    return [party.node]


def main():
    client = KazooClient(hosts=sys.argv[1], timeout=float(sys.argv[2]))
    client.start(timeout=30)
    joined = {}
    for line in sys.stdin:
        try:
            answer = obey(client, joined, *line.split())
        except Exception as error:
            answer = ["failed " + repr(error)]
        print("".join(text + "\n" for text in answer) + "done", flush=True)
    client.stop()


main()
