"""Asks Airflow's timetables for runs, and its task instances for retry delays."""

import datetime
import types

from loading import instant


class Frozen:
    """The clock that Airflow's timetables look at."""

    def __init__(self):
        import airflow.timetables.interval as interval
        import airflow.timetables.simple as simple
        import airflow.timetables.trigger as trigger
        from pendulum import DateTime

        self._DateTime = DateTime
        self.now = None
        interval.utcnow = self.utcnow
        trigger.utcnow = self.utcnow
        simple.timezone = types.SimpleNamespace(
            **{k: getattr(simple.timezone, k) for k in dir(simple.timezone) if not k.startswith("__")}
        )
        simple.timezone.utcnow = self.utcnow
        trigger.time = types.SimpleNamespace(time=lambda: self.utcnow().timestamp())

    def utcnow(self):
        return self._DateTime.instance(self.now)


def planned_runs(clock, dag, start, jumps):
    """The runs that follow one another when the scheduler looks at the DAG at
    `start` and, after each run, at the later of its due time and the present
    time, moved by the next of `jumps`."""
    clock.now = parse(start)
    last, out = None, []
    for jump in jumps:
        try:
            info = dag.timetable.next_dagrun_info_v2(last_dagrun_info=last, restriction=dag._time_restriction)
        except Exception as e:
            out.append({"error": "%s: %s" % (type(e).__name__, e)})
            break
        if info is None:
            out.append(None)
            break
        out.append(
            {
                "logical_date": instant(info.logical_date),
                "start": instant(info.data_interval.start),
                "end": instant(info.data_interval.end),
                "run_after": instant(info.run_after),
                "run_id": run_id(dag, info),
            }
        )
        clock.now = max(clock.now, info.run_after) + datetime.timedelta(seconds=jump)
        last = info
    return out


class Ticks:
    """The rules wall-steps and no-tick-lost: a cron text's ticks are its matches
    on the wall clock, each with the zone attached (moved forward out of a gap, the
    second of two); a time that the clock shows twice counts as shown the second
    time, also where one asks from the first. A text that covers every hour
    keeps Airflow's elapsed time for steps of up to an hour."""

    fired = set()
    on = False

    @classmethod
    def switch_on(cls):
        from airflow.timetables._cron import CronMixin

        if not cls.on:
            cls.on = True
            CronMixin._get_next = cls.following(CronMixin._get_next, "get_next", 1)
            CronMixin._get_prev = cls.following(CronMixin._get_prev, "get_prev", -1)

    @classmethod
    def following(cls, original, step, sign):
        from airflow._shared.timezones.timezone import convert_to_utc, make_aware, make_naive
        from airflow.timetables._cron import _covers_every_hour
        from croniter import croniter

        reach = datetime.timedelta(hours=3)

        def move(self, current):
            answer = original(self, current)
            naive = make_naive(current, self._timezone)
            cron = croniter(self._expression, start_time=naive)
            every_hour = _covers_every_hour(cron)
            if every_hour and abs(getattr(cron, step)(datetime.datetime) - naive) <= datetime.timedelta(hours=1):
                return answer
            if sign > 0 and not every_hour:
                current = max(current, convert_to_utc(make_aware(naive, self._timezone)))
            cron = croniter(self._expression, start_time=naive - sign * reach)
            best, until = None, None
            while True:
                match = getattr(cron, step)(datetime.datetime)
                if until is not None and sign * (match - until).total_seconds() > 0:
                    break
                tick = convert_to_utc(make_aware(match, self._timezone))
                if sign * (tick - current).total_seconds() > 0:
                    if best is None or sign * (tick - best).total_seconds() < 0:
                        best = tick
                    until = until or match + sign * reach
            if best != answer:
                cls.fired.add("wall-steps" if every_hour else "no-tick-lost")
            return best

        return move


def run_id(dag, info):
    from airflow.utils.types import DagRunType

    return dag.timetable.generate_run_id(
        run_type=DagRunType.SCHEDULED, run_after=info.run_after, data_interval=info.data_interval
    )


def manual_interval(dag, at):
    from airflow._shared.timezones.timezone import coerce_datetime

    got = dag.timetable.infer_manual_data_interval(run_after=coerce_datetime(parse(at)))
    return [instant(got.start), instant(got.end)]


END = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)


def retry_delay(dag, question):
    """Seconds from the end of a failed attempt to its retry."""
    from airflow.models.taskinstance import TaskInstance

    ti = types.SimpleNamespace(
        retry_delay_override=None,
        task=dag.get_task(question["task_id"]),
        try_number=question["try"],
        dag_id=dag.dag_id,
        task_id=question["task_id"],
        logical_date=parse(question["logical_date"]),
        end_date=END,
        log=types.SimpleNamespace(warning=lambda *_: None),
    )
    return (TaskInstance.next_retry_datetime(ti) - END).total_seconds()


def parse(text):
    return None if text is None else datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
