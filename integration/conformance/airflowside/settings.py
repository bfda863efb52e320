"""Points Airflow at a home folder of its own, before anything of it is imported."""

import logging
import os
import pathlib
import shutil
import warnings


def prepare(home, template):
    """Makes AIRFLOW_HOME ready: settings, and a copy of the migrated metadata
    database (made once and kept in the cache)."""
    home = pathlib.Path(home)
    home.mkdir(parents=True, exist_ok=True)
    (home / "dags").mkdir(exist_ok=True)
    database = home / "airflow.db"
    os.environ.update(
        {
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
            "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "sqlite:///%s" % database,
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "CRITICAL",
            "AIRFLOW__DAG_FACTORY__ENABLE_TELEMETRY": "False",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "DO_NOT_TRACK": "1",
        }
    )
    warnings.filterwarnings("ignore")
    template = pathlib.Path(template)
    if not template.exists():
        from airflow.utils import db

        db.initdb()
        from airflow import settings

        settings.engine.dispose()
        shutil.copyfile(database, template)
    else:
        shutil.copyfile(template, database)
    quiet()
    fast()


def quiet():
    """Says nothing but what is fatal: Airflow logs several lines a decision."""
    logging.disable(logging.ERROR)


def fast():
    """The metadata database is thrown away: it need not survive a power cut."""
    from airflow import settings
    from sqlalchemy import event

    @event.listens_for(settings.engine, "connect")
    def _(connection, _record):
        for pragma in ("synchronous=OFF", "journal_mode=MEMORY", "temp_store=MEMORY"):
            connection.execute("PRAGMA " + pragma)

    settings.engine.dispose()


def versions():
    from importlib.metadata import version

    return {name: version(name) for name in ("apache-airflow", "dag-factory", "croniter", "pendulum")}
