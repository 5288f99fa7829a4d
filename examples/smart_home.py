"""Emit an alert when every room is hot and the pressure has jumped.

Thermometers are independent of each other: the state is each room's highest temperature. Readings of the
pressure gauge are not, because a jump is a difference to the reading before. Once a minute both are
evaluated. A node that processes only thermometers does not need the pressure, so the program has three
types of state: the home, which forks into its rooms and its gauge, and the rooms, which fork again, room
by room.
"""

from typing import NamedTuple

from anabranch import Event, ForkJoin, Map, Program, State, depends, on, take
from anabranch.demo import show
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel
from anabranch.state import MapOf, Max


class Temp(NamedTuple):
    time: int
    room: str
    degrees: int


class Pressure(NamedTuple):
    time: int
    hectopascals: int


class Minute(NamedTuple):
    time: int


class Gauge(NamedTuple):
    last: int | None = None
    jump: int = 0

    def read(self, now: int) -> "Gauge":
        return Gauge(now, self.jump if self.last is None else max(self.jump, now - self.last))


class Home(NamedTuple):
    rooms: Map[str, int] = Map()
    gauge: Gauge = Gauge()


highest = Max()


def warm(home: Home, temp: Temp) -> Home:
    top = highest.add(home.rooms.get(temp.room), temp.degrees)
    return home._replace(rooms=home.rooms.set(temp.room, top))


def alert(home: Home, minute: Minute) -> tuple[str, int, int]:
    coolest = min(home.rooms.values(), default=0)
    if home.gauge.jump >= 100 and coolest >= 50:
        return ("alert", coolest, home.gauge.jump)
    return ("calm", coolest, home.gauge.jump)


smart_home = Program(
    State(
        "home",
        on(Temp, update=warm),
        on(Pressure, update=lambda home, p: home._replace(gauge=home.gauge.read(p.hectopascals))),
        on(Minute, output=alert, update=lambda home, minute: Home(Map(), Gauge(home.gauge.last))),
        init=Home(),
    ),
    State(
        "rooms",
        on(Temp, update=lambda top, temp: highest.add(top, temp.degrees)),
        state=MapOf(highest, by="room"),
    ),
    State("gauge", on(Pressure, update=lambda gauge, p: gauge.read(p.hectopascals))),
    ForkJoin(
        "home",
        "rooms",
        "gauge",
        fork=lambda home, left, right: (home.rooms, home.gauge),
        join=Home,
    ),
    depends(Minute, Temp, Pressure, Minute),
    depends(Pressure, Pressure),
)

events = [
    Event(Temp(5, "kitchen", 21), "kitchen", 0),
    Event(Temp(10, "hall", 19), "hall", 0),
    Event(Pressure(15, 1000), "gauge", 0),
    Event(Pressure(45, 1010), "gauge", 1),
    Event(Temp(50, "kitchen", 24), "kitchen", 1),
    Event(Minute(60), "clock", 0),
    Event(Temp(70, "kitchen", 80), "kitchen", 2),
    Event(Temp(75, "hall", 55), "hall", 1),
    Event(Pressure(80, 1130), "gauge", 2),
    Event(Temp(95, "hall", 48), "hall", 2),
    Event(Pressure(110, 1140), "gauge", 3),
    Event(Minute(120), "clock", 1),
    Event(Temp(130, "kitchen", 90), "kitchen", 3),
    Event(Temp(140, "hall", 49), "hall", 3),
    Event(Pressure(150, 1240), "gauge", 4),
    Event(Minute(180), "clock", 2),
]
channels = tuple(Channel(name) for name in ("kitchen", "hall", "gauge", "clock"))
expected = [("calm", 19, 10), ("alert", 55, 120), ("calm", 49, 100)]

gauge = PlanNode(Pressure, state="gauge")
kitchen = PlanNode(take(Temp, room="kitchen"), state="rooms")
hall = PlanNode(take(Temp, room="hall"), state="rooms")
one, two = (PlanNode(take(Temp, channel=name), state="rooms") for name in ("kitchen", "hall"))
plans = {
    "sequential": Plan(PlanNode(Temp, Pressure, Minute, state="home")),
    "rooms and gauge": Plan(
        PlanNode(Minute, state="home", children=(PlanNode(Temp, state="rooms"), gauge))
    ),
    "room by room": Plan(
        PlanNode(
            Minute,
            state="home",
            children=(PlanNode(state="rooms", children=(kitchen, hall)), gauge),
        )
    ),
    "thermometer by thermometer": Plan(
        PlanNode(
            Minute,
            state="home",
            children=(PlanNode(state="rooms", children=(one, two)), gauge),
        )
    ),
}


def describe(time: int, output: tuple[str, int, int]) -> str:
    verdict, coolest, jump = output
    return f"at {time:>3}: {verdict}, coolest room {coolest}, pressure +{jump}"


if __name__ == "__main__":
    show(smart_home, events, channels=channels, line=describe)
