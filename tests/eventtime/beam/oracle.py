"""Say what Beam's own trigger driver says: scenarios as JSON lines in, answers as JSON lines out.

Run by a Python that has apache-beam; imports nothing of Anabranch. Beam's watermark is one more
than a watermark, and so is its idea of when a window is closed, so a lateness is one less there.

The driver leaves two things to whoever runs it. One is forgetting windows, which is done here when
they are closed. The other is alarms. With `"as": "python"` those that the driver sets are rung, and
nothing is changed. With "java" two things are as in Beam's Java runner: each window is rung once, at
its end, if its trigger wants a pane on time; and a session that had spoken on time, but grows past
the watermark, starts over.
"""

import json
import logging
import sys

from apache_beam.transforms import trigger, window
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import TimestampCombiner, WindowedValue, WindowFn
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming


class Rewinding(trigger.AfterWatermark):
    """A trigger that is not late any more once its window ends after the watermark."""

    watermark = MIN_TIMESTAMP

    def on_merge(self, to_be_merged, merge_result, context):
        if self.late and merge_result.end > Rewinding.watermark:
            context.clear_state(self.LATE_TAG)
            self.late.reset(merge_result, trigger.NestedContext(context, "late"))
        super().on_merge(to_be_merged, merge_result, context)


TRIGGERS = {
    "DefaultTrigger": trigger.DefaultTrigger,
    "Always": trigger.Always,
    "Never": trigger._Never,
    "AfterCount": trigger.AfterCount,
    "AfterWatermark": trigger.AfterWatermark,
    "Repeatedly": trigger.Repeatedly,
    "AfterAny": trigger.AfterAny,
    "AfterAll": trigger.AfterAll,
    "AfterEach": trigger.AfterEach,
    "OrFinally": trigger.OrFinally,
    "AfterProcessingTime": lambda delay: trigger.AfterProcessingTime(Duration(micros=delay)),
}
WINDOWS = {
    "Tumbling": lambda size, offset=0: window.FixedWindows(
        Duration(micros=size), Timestamp(micros=offset)
    ),
    "Sliding": lambda size, every, offset=0: window.SlidingWindows(
        Duration(micros=size), Duration(micros=every), Timestamp(micros=offset)
    ),
    "Sessions": lambda gap: window.Sessions(Duration(micros=gap)),
    "Global": window.GlobalWindows,
}
MODES = {
    "discarding": trigger.AccumulationMode.DISCARDING,
    "accumulating": trigger.AccumulationMode.ACCUMULATING,
}
COMBINERS = {
    "end": TimestampCombiner.OUTPUT_AT_EOW,
    "earliest": TimestampCombiner.OUTPUT_AT_EARLIEST,
    "latest": TimestampCombiner.OUTPUT_AT_LATEST,
}
TIMINGS = {
    PaneInfoTiming.EARLY: "early",
    PaneInfoTiming.ON_TIME: "on_time",
    PaneInfoTiming.LATE: "late",
}


class Clock:
    """A clock that shows what it is told."""

    now = MIN_TIMESTAMP

    def time(self):
        return self.now


class Run:
    """One scenario on Beam's driver."""

    def __init__(self, scenario):
        self.windows = build(WINDOWS, scenario["window"])
        self.as_java = scenario["as"] == "java"
        changed = {"AfterWatermark": Rewinding} if self.as_java else {}
        self.trigger = build(TRIGGERS | changed, scenario["trigger"])
        self.lateness = Duration(micros=scenario["lateness"] - 1)
        self.clock = Clock()
        self.watermark = MIN_TIMESTAMP
        self.state = trigger.InMemoryUnmergedState()
        windowing = Windowing(
            self.windows,
            self.trigger,
            MODES[scenario["accumulation"]],
            COMBINERS[scenario["output_time"]],
            self.lateness,
        )
        self.driver = trigger.GeneralTriggerDriver(windowing, self.clock)

    def take(self, kind, told):
        Rewinding.watermark = self.watermark
        if kind == "elements":
            bundle = [self.element(Timestamp(micros=time), value) for time, value in told]
            panes = list(
                self.driver.process_elements(self.state, bundle, self.watermark, self.watermark)
            )
            return self.describe(panes + self.ring(self.watermark))
        before = self.watermark
        if kind == "clock":
            self.clock.now = Timestamp(micros=told)
        else:
            self.watermark = (
                MAX_TIMESTAMP if kind == "end" else max(before, Timestamp(micros=told + 1))
            )
        panes = self.describe(self.ring(before))
        self.forget()
        return panes

    def element(self, time, value):
        windows = self.windows.assign(WindowFn.AssignContext(time, value))
        return WindowedValue(value, time, windows)

    def ring(self, before):
        """Ring what is due, until nothing is."""
        panes = self.ring_windows(before) if self.as_java else []
        while due := [one for one in self.find_due() if self.is_rung(one)]:
            for window_id, (name, domain, time, _) in due:
                panes += self.driver.process_timer(window_id, name, domain, time, self.state)
        return panes

    def find_due(self):
        return self.state.get_timers(
            clear=True, watermark=self.watermark, processing_time=self.clock.now
        )[0]

    def is_rung(self, due):
        return not self.as_java or due[1][1] == TimeDomain.REAL_TIME

    def ring_windows(self, before):
        panes = []
        for one, ids in list(self.known().window_ids.items()):
            ends = before < one.end <= self.watermark
            if ends and self.trigger.has_ontime_pane():
                panes += self.driver.process_timer(
                    ids[0], "", TimeDomain.WATERMARK, one.end, self.state
                )
        return panes

    def known(self):
        return trigger.MergeableStateAdapter(self.state)

    def forget(self):
        known = self.known()
        for one in known.known_windows():
            if self.is_closed(one):
                for window_id in known.window_ids.pop(one):
                    self.state.state.pop(window_id, None)
                    self.state.timers.pop(window_id, None)
        known._persist_window_ids()

    def is_closed(self, one):
        return self.watermark == MAX_TIMESTAMP or self.watermark > one.end + self.lateness

    def describe(self, panes):
        return sorted(map(self.describe_pane, panes))

    def describe_pane(self, pane):
        (one,) = pane.windows
        info = pane.pane_info
        whole = isinstance(one, window.GlobalWindow)
        at_end = pane.timestamp == one.max_timestamp()
        return [
            [] if whole else [one.start.micros, one.end.micros],
            sorted(pane.value),
            [] if whole and at_end else [Timestamp.of(pane.timestamp).micros],
            TIMINGS[info.timing],
            info.index,
            info.nonspeculative_index,
            bool(info.is_first),
            bool(info.is_last) or self.is_closed(one),
        ]


def build(known, told):
    """Build what is told as a list: a name and its arguments, or None."""
    if not isinstance(told, list):
        return told
    return known[told[0]](*(build(known, part) for part in told[1:]))


def main():
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        scenario = json.loads(line)
        run = Run(scenario)
        answer = [run.take(kind, told) for kind, told in scenario["steps"]]
        sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
