"""Ctrl-C and SIGTERM, without Spark: what waits for what, what is silent, and who is left."""

import logging
import os
import signal
import socketserver
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from anabranch.errors import Stopped
from anabranch.spark.session import signals
from anabranch.spark.session.signals import Jvm, end_on_signals, hold_signals, keep_handlers

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


@pytest.fixture(autouse=True)
def jvm(monkeypatch):
    """Give each test a JVM of its own, and the signals and logs back to the next one."""
    before = [signal.getsignal(number) for number in signals.SIGNALS]
    monkeypatch.setattr(signals, "JVM", Jvm())
    yield signals.JVM
    assert [signal.getsignal(number) for number in signals.SIGNALS] == before
    logging.disable(logging.NOTSET)


def start(*command):
    return subprocess.Popen(command, stdin=subprocess.PIPE)


def test_a_signal_waits_until_the_call_is_over_and_the_query_is_stopped():
    steps = []

    def call():
        signal.raise_signal(signal.SIGINT)
        steps.append("call")

    with pytest.raises(KeyboardInterrupt), hold_signals(lambda: steps.append("stop")):
        call()
    assert steps == ["call", "stop"]


def test_without_a_signal_nothing_is_stopped():
    with hold_signals(lambda: pytest.fail("stopped")):
        pass


@BOTH
def test_a_signal_is_then_handled_as_it_would_have_been(number):
    came = []
    before = signal.signal(number, lambda number, frame: came.append(number))
    try:
        with hold_signals(lambda: came.append("stop")):
            signal.raise_signal(number)
    finally:
        signal.signal(number, before)
    assert came == ["stop", number]


def test_a_call_that_a_signal_cut_off_is_no_failure():
    def call():
        signal.raise_signal(signal.SIGINT)
        raise ConnectionError("the JVM got the signal too")

    with pytest.raises(KeyboardInterrupt), hold_signals(lambda: None):
        call()
    with pytest.raises(ConnectionError), hold_signals(lambda: None):
        raise ConnectionError("it has failed by itself")


def test_what_can_not_be_stopped_is_left(monkeypatch, capfd):
    def fail():
        raise ConnectionError("there is nobody to be stopped")

    with pytest.raises(KeyboardInterrupt), hold_signals(fail):
        signal.raise_signal(signal.SIGINT)
    monkeypatch.setattr(signals, "STOP_S", 0.1)
    never = threading.Event()
    with pytest.raises(KeyboardInterrupt), hold_signals(never.wait):
        signal.raise_signal(signal.SIGINT)
    never.set()
    assert capfd.readouterr().err == ""


def test_the_logs_are_silent_from_the_signal_until_it_has_stopped(caplog):
    log = logging.getLogger("py4j")

    def call():
        log.error("before")
        signal.raise_signal(signal.SIGINT)
        log.error("cut off")

    with pytest.raises(KeyboardInterrupt), hold_signals(lambda: log.error("cut off")):
        call()
    log.error("after")
    assert caplog.messages == ["before", "after"]


def test_what_is_ignored_stays_so():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with end_on_signals(), hold_signals(lambda: pytest.fail("stopped")):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_holds_nothing():
    done = []

    def call():
        with end_on_signals(), hold_signals(lambda: None), keep_handlers():
            done.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert done == [signal.getsignal(signal.SIGINT)]


def test_who_leaves_does_not_log_what_was_cut_off(caplog):
    with pytest.raises(KeyboardInterrupt), end_on_signals():
        signal.raise_signal(signal.SIGINT)
    logging.getLogger("py4j").error("cut off")
    assert caplog.messages == []


def test_a_server_that_the_jvm_leaves_says_nothing(jvm, monkeypatch, capsys):
    server = socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler)
    context = SimpleNamespace(_accumulatorServer=server)
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", context)
    jvm.process = start("cat")
    with pytest.raises(KeyboardInterrupt), hold_signals(jvm.end):
        signal.raise_signal(signal.SIGINT)
    server.handle_error(None, None)
    server.server_close()
    assert capsys.readouterr().err == ""


@BOTH
def test_a_command_ends_its_jvm_and_knows_by_which_signal(jvm, number):
    jvm.process = start("cat")  # Like a JVM, it ends when nobody can write to it any more.
    with pytest.raises(Stopped) as stop, end_on_signals():
        signal.raise_signal(number)
    assert stop.value.number == number
    assert jvm.process.returncode == 0


@BOTH
def test_who_can_not_tidy_up_after_a_signal_is_stopped_all_the_same(jvm, number):
    def tidy_up():
        raise ConnectionError("the JVM got the signal too")

    def work():
        try:
            signal.raise_signal(number)
        finally:
            tidy_up()

    jvm.process = start("cat")
    with pytest.raises(Stopped) as stop, end_on_signals():
        work()
    assert (stop.value.number, jvm.process.returncode) == (number, 0)


def test_a_jvm_that_does_not_end_is_killed(jvm, monkeypatch):
    monkeypatch.setattr(signals, "JVM_STOP_S", 0.1)
    jvm.process = start("sleep", "600")
    with pytest.raises(KeyboardInterrupt), end_on_signals():
        signal.raise_signal(signal.SIGINT)
    assert jvm.process.returncode == -signal.SIGKILL
    jvm.process.stdin.close()


def test_a_command_that_fails_or_succeeds_leaves_its_jvm_alone(jvm):
    jvm.process = start("cat")
    with end_on_signals():
        pass
    with pytest.raises(ValueError, match="wrong"), end_on_signals():
        raise ValueError("wrong")
    assert jvm.process.poll() is None
    jvm.end()


def test_what_was_printed_before_the_mark_is_dropped_and_after_it_passed_on(jvm):
    reading_end, jvm.pipe = os.pipe()
    with os.fdopen(reading_end, "rb") as lines:
        os.write(jvm.pipe, b"one\n")
        passed = [jvm.is_forwarded(lines.readline())]
        jvm.mute()
        os.write(jvm.pipe, b"two\n")
        jvm.unmute()
        os.write(jvm.pipe, b"three\n")
        os.close(jvm.pipe)
        passed += [jvm.is_forwarded(line) for line in lines]
    assert passed == [True, False, False, True]


def test_who_leaves_is_not_heard_again(jvm):
    reading_end, jvm.pipe = os.pipe()
    with os.fdopen(reading_end, "rb") as lines:
        with pytest.raises(KeyboardInterrupt), end_on_signals(), hold_signals(lambda: None):
            signal.raise_signal(signal.SIGINT)
        os.write(jvm.pipe, b"a stack trace\n")
        os.close(jvm.pipe)
        assert [jvm.is_forwarded(line) for line in lines] == [False, False]
    jvm.pipe = None


def replace_handler(handler):
    with keep_handlers():
        signal.signal(signal.SIGINT, handler)
    return signal.getsignal(signal.SIGINT)


def test_a_spark_context_may_take_ctrl_c_from_python_only():
    def mine(number, frame):
        pass

    def sparks(number, frame):
        pass

    def next_sparks(number, frame):
        pass

    sparks.__module__ = next_sparks.__module__ = "pyspark.core.context"
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert replace_handler(sparks) is sparks
        assert replace_handler(next_sparks) is next_sparks
        signal.signal(signal.SIGINT, mine)
        assert replace_handler(sparks) is mine
    finally:
        signal.signal(signal.SIGINT, before)


TWICE = """
import signal, subprocess, time
from anabranch.spark.session import signals as interruption
from anabranch.spark.session.signals import JVM, end_on_signals, hold_signals

interruption.STOP_S = interruption.JVM_STOP_S = 600
JVM.process = subprocess.Popen(["sleep", "600"])

def ready():
    print(JVM.process.pid, flush=True)
    time.sleep(600)

def end(end=JVM.end):
    print("leaving", flush=True)
    end()

JVM.end = end
with end_on_signals():
    {step}
"""
STEPS = {
    "in a call": "with hold_signals(lambda: None): ready()",
    "while it stops": "with hold_signals(ready): signal.raise_signal(signal.SIGINT)",
    "while it leaves": "ready()",
}


def send_both_at_once():
    signal.pthread_sigmask(signal.SIG_BLOCK, signals.SIGNALS)
    try:
        for number in signals.SIGNALS:
            # To this thread: another one, which does not block it, would take it at once.
            signal.pthread_kill(threading.get_ident(), number)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals.SIGNALS)


def test_a_second_signal_right_behind_the_first_is_not_taken_for_it(jvm, monkeypatch):
    killed = []
    monkeypatch.setattr(signals, "_kill", lambda number, frame: killed.append(number))
    with pytest.raises(KeyboardInterrupt), end_on_signals():
        send_both_at_once()
    assert killed == [signal.SIGTERM]


@pytest.mark.parametrize("step", STEPS)
def test_a_second_signal_kills_at_once(step):
    process = subprocess.Popen(
        [sys.executable, "-c", TWICE.format(step=STEPS[step])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    jvm_pid = int(process.stdout.readline())
    if step != "while it stops":
        process.send_signal(signal.SIGINT)
    if step == "while it leaves":
        # Python 3.11 may keep a signal to itself that comes while the handler of another one raises.
        assert process.stdout.readline() == "leaving\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (-signal.SIGTERM, "")
    with pytest.raises(ProcessLookupError):
        os.kill(jvm_pid, 0)
