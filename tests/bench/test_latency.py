import json
import socket
import threading

from bench.latency.__main__ import compare, main
from bench.latency.producer import CHANNELS, Schedule, listen, produce

RECORD = {"totals": {"5": 10, "9": 20, "12": 7}, "made": {"9": 1.0, "12": 2.0}}


def test_latency_is_from_when_a_barrier_was_made_to_when_it_was_answered():
    assert compare(RECORD, [[5, 10, 0.5], [9, 20, 1.25], [12, 7, 2.5]]) == [250.0, 500.0]


def test_the_last_barrier_may_stay_open():
    assert compare(RECORD, [[5, 10, 0.5], [9, 20, 1.25]]) == [250.0]


def test_a_wrong_or_missing_total_has_no_latency():
    assert compare(RECORD, [[9, 21, 1.25], [12, 7, 2.5]]) == "wrong: 1 of 2 totals"
    assert compare(RECORD, [[12, 7, 2.5]]) == "wrong: 1 of 2 barriers have no answer"


def test_the_producer_sends_what_it_says_it_has_sent(tmp_path):
    servers = listen()
    ended = tmp_path / "ended.json"
    schedule = Schedule(per_second=5_000, seconds=1, warm_s=0)
    producer = threading.Thread(target=produce, args=(servers, schedule, ended))
    producer.start()
    received: list[list[tuple[int, int, int]]] = [[] for _ in CHANNELS]

    def read(number: int) -> None:
        with socket.create_connection(servers[number].getsockname()) as reader:
            lines = reader.makefile("r").read().splitlines()
        received[number] = [tuple(int(field) for field in line.split(",")) for line in lines]

    readers = [threading.Thread(target=read, args=(number,)) for number in range(len(CHANNELS))]
    for thread in readers:
        thread.start()
    for thread in [*readers, producer]:
        thread.join(timeout=60)
    for server in servers:
        server.close()
    values = sorted([*received[0], *received[1]])
    totals, before = {}, 0
    for until, _, _ in received[2]:
        totals[str(until)] = sum(v for time, _, v in values if before < time < until)
        before = until
    record = json.loads(ended.read_text())
    assert record["totals"] == totals
    assert len(totals) == 5
    assert len(values) == 5_000


def test_an_unknown_contender_is_refused(capsys):
    assert main(["--only", "storm"]) == 2
    assert capsys.readouterr().err.startswith("There is no contender 'storm'. Existing: anabranch,")
