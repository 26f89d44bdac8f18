# SPDX-License-Identifier: Apache-2.0
"""When an entry is due."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocibridge.mirror.jobs.schedule import next_run, parse_cron, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("300ms", 0.3),
        ("250us", 0.00025),
        ("250µs", 0.00025),
        ("1h1m1s1ms", 3661.001),
        ("1m1h", 3660),
        ("0s", 0),
        ("8784h", 366 * 86400),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "0", "1d", "1h 30m", "-1h", "+1h", "h", ".h", "1H", "1e3s", "٣s", "1s" * 30])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration; write for example 90s, 15m or 1h30m"):
        parse_duration(text)


def test_a_duration_that_is_too_long() -> None:
    for text in ("8785h", "9" * 38 + "h"):
        with pytest.raises(ValueError, match="is longer than 366 days; give a shorter duration"):
            parse_duration(text)


@given(st.integers(0, 8000), st.integers(0, 59), st.integers(0, 59))
def test_durations_add_up(hours: int, minutes: int, seconds: int) -> None:
    expected = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == expected


AFTER = datetime(2026, 1, 31, 12, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("line", "due"),
    [
        ("15 3 * * *", "2026-02-01T03:15"),
        ("*/15 * * * *", "2026-01-31T12:15"),
        ("0 12 * * *", "2026-02-01T12:00"),
        ("0 0 * * mon-fri", "2026-02-02T00:00"),
        ("0 0 1,15 * *", "2026-02-01T00:00"),
        ("0 0 13 * fri", "2026-02-06T00:00"),  # either of the two, as both are given
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("@hourly", "2026-01-31T13:00"),
        ("@daily", "2026-02-01T00:00"),
        ("@weekly", "2026-02-01T00:00"),
        ("@monthly", "2026-02-01T00:00"),
        ("@yearly", "2027-01-01T00:00"),
        (" 15  3 * * * ", "2026-02-01T03:15"),
    ],
)
def test_cron_lines(line: str, due: str) -> None:
    found = next_run(AFTER, schedule=parse_cron(line))
    assert found == datetime.fromisoformat(due).replace(tzinfo=timezone.utc)


FIELDS = "write minute, hour, day of month, month and day of week, such as '15 3 * * *'"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", f"'' is no cron line of five fields; {FIELDS}"),
        ("* * * *", f"'* * * *' is no cron line of five fields; {FIELDS}"),
        ("0 15 3 * * *", f"'0 15 3 * * *' is no cron line of five fields; {FIELDS}"),
        ("@reboot", f"'@reboot' is no cron line of five fields; {FIELDS}"),
        ("@every 1h", "'@every' is no cron line; write it as an interval, such as interval: 1h"),
        ("60 * * * *", "the minute of the cron line '60 * * * *' is not valid; see crontab(5)"),
        ("0 24 * * *", "the hour of the cron line '0 24 * * *' is not valid; see crontab(5)"),
        ("0 0 0 * *", "the day-of-month of the cron line '0 0 0 * *' is not valid; see crontab(5)"),
        ("0 0 * 13 *", "the month of the cron line '0 0 * 13 *' is not valid; see crontab(5)"),
        ("0 0 * * 8", "the day-of-week of the cron line '0 0 * * 8' is not valid; see crontab(5)"),
        ("* * */20 * 1L", "no time ever fits the cron line '* * */20 * 1L'; check its day and month"),
    ],
)
def test_no_cron_lines(line: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_cron(line)
    assert str(caught.value) == message


@settings(deadline=None)
@given(st.text("0123456789*/,-#L @a", max_size=24))
def test_any_text_is_a_cron_line_or_a_clear_refusal(text: str) -> None:
    try:
        line = parse_cron(text)
    except ValueError as exc:
        assert "cron line" in str(exc)
    else:
        found = next_run(AFTER, schedule=line)
        assert found is not None
        assert found > AFTER


def test_an_interval() -> None:
    assert next_run(AFTER, interval=timedelta(minutes=90)) == AFTER + timedelta(minutes=90)
    assert next_run(datetime(2026, 1, 1), interval=timedelta(hours=1)) == datetime(2026, 1, 1, 1)
    assert next_run(AFTER) is None


def test_summer_time() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    night = datetime(2026, 3, 28, 12, tzinfo=berlin)
    # The hour from 2 to 3 is left out that night: what was due in it is run right after it.
    assert next_run(night, schedule=parse_cron("30 2 * * *")) == datetime(2026, 3, 29, 3, 0, tzinfo=berlin)
    due = next_run(night, interval=timedelta(hours=24))
    assert due is not None
    assert due.astimezone(timezone.utc) - night.astimezone(timezone.utc) == timedelta(hours=24)
    assert (due.hour, due.tzinfo) == (13, berlin)
