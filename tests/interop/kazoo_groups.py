"""kazoo's side of group_interop_test.cpp.

kazoo_groups.py HOSTS TIMEOUT

TIMEOUT: of the session, in seconds. Ends with its input, of which each line is a command; each is answered by lines of
which the last one is "done". KIND is Party or ShallowParty.

    join KIND PATH [ID]    prints the name of the new member's node
    leave NAME             of a member's node; prints True if it was there
    list KIND PATH         prints the identifiers, in order, one line each
    count KIND PATH        prints how many there are
"""
import sys

from kazoo.client import KazooClient
from kazoo.recipe.party import Party, ShallowParty

kinds = {"Party": Party, "ShallowParty": ShallowParty}


def obey(client, joined, verb, *words):
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
