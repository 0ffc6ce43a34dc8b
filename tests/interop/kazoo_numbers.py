"""kazoo's side of counter_interop_test.cpp.

kazoo_numbers.py HOSTS

Ends with its input, of which each line is a command; each is answered by lines of which the last one is "done". With
"curator" before the path the number is written as Curator writes it.

    add [curator] PATH TIMES    adds 1 so many times; prints what the number was at last
    get [curator] PATH
"""
import sys

from kazoo.client import KazooClient


def obey(client, verb, *words):
    curator = words[0] == "curator"
    path, times = (*words[curator:], "0")[:2]
    counter = client.Counter(path, support_curator=curator)
    for _ in range(int(times)):
        counter += 1
    return [str(counter.post_value if verb == "add" else counter.value)]


def main():
    client = KazooClient(hosts=sys.argv[1], timeout=20.0)
    client.start(timeout=30)
    for line in sys.stdin:
        try:
            answer = obey(client, *line.split())
        except Exception as error:
            answer = ["failed " + repr(error)]
        print("".join(text + "\n" for text in answer) + "done", flush=True)
    client.stop()


main()
