"""The rows of batches, and the pictures."""

import io

from rich.console import Console

from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.runs.published_batches import Watermarks
from anabranch.model.events import FOREVER
from anabranch.tour.fold_tasks import Shares
from anabranch.tour.summary import Flow, draw_rates
from anabranch.tour.traffic import DAY_S, HOUR_S
from anabranch.tour.view import (
    Hour,
    LiveView,
    Step,
    draw_channels,
    draw_hours,
    format_header,
    format_row,
)

WATERMARKS = Watermarks(
    236_520, {"airport": 330_420, "city": 332_580, "clock": 331_199, "suburb": 236_520}
)
STEP = Step(4, 5_001_400, 1.25, Ledger(25_070_000, 18_377_000, 8600, 4, 0, 6_684_396), WATERMARKS)


def test_a_batch_is_a_row_below_its_header():
    assert format_header().plain == (
        "  batch     events     s   events/s   pending   late rejected  watermark held by"
    )
    assert format_row(STEP).plain == (
        "      4  5,001,400   1.2  4,001,120 6,684,396  8,600        4  Wed 17:42 suburb"
    )


def test_no_channel_holds_back_a_batch_that_ends_the_stream():
    ended = Watermarks(FOREVER, dict.fromkeys(("city", "clock"), FOREVER))
    assert format_row(STEP._replace(watermarks=ended)).plain.endswith("        4  ended")


def test_a_batch_that_is_not_published_yet_has_a_row():
    row = format_row(Step(4, 0, 0.0)).plain
    assert row == "      4          0   0.0          0"


def test_channels_are_drawn_as_far_as_they_have_come():
    lines = [line.plain for line in draw_channels(WATERMARKS, 7 * DAY_S)]
    assert lines == [
        "    airport  ███████████████████▋                  Thu 19:47",
        "    city     ███████████████████▊                  Thu 20:23",
        "    clock    ███████████████████▊                  Thu 19:59",
        "    suburb   ██████████████▏                       Wed 17:42  holds back",
    ]


def test_the_last_hours_are_drawn_to_one_scale():
    hours = [Hour(n * HOUR_S, (400_000 * n, 50_000, 0)) for n in range(1, 7)]
    assert [line.plain for line in draw_hours(hours)][-1] == (
        "    Mon 06:00  taxi 1 ██████  2.4 M  taxi 2 ▏        50 k  taxi 3             0"
    )
    assert len(draw_hours(hours)) == 4


def test_the_live_picture_fits_eighty_columns():
    file = io.StringIO()
    console = Console(file=file, width=80)
    hours = [Hour(HOUR_S, (99_999_999, 9_999_999, 999))]
    view = LiveView(console, 7 * DAY_S, status="batch 5 is running", steps=[STEP], hours=hours)
    console.print(view.draw())
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    assert len(lines) == 9, "no line was wrapped"
    assert lines[-1].endswith("batch 5 is running")


def test_rates_are_drawn_with_what_was_special_about_a_batch():
    steps = [
        Step(0, 1_000_000, 10.0, Ledger()),
        Step(1, 1_000_000, 0.5, Ledger(pending=900_000)),
        Step(2, 2_000_000, 5.0, Ledger()),
        Step(3, 1_000_000, 0.25, Ledger()),
    ]
    flow = Flow(before=steps[:2], after=steps[2:], shares=Shares(2, (0.5, 0.5)))
    assert [line.plain for line in draw_rates(flow)] == [
        "    0       ▉                                     100 k  Spark starts",
        "    1       ██████████████████                    2.0 M  900 k pending events",
        "    2       ███▋                                  400 k  killed, restarted, repeated",
        "    3       ████████████████████████████████████  4.0 M",
    ]
    # The first batch of each process is left out.
    assert flow.rate == 2_000_000 / 0.75
