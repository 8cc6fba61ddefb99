"""The status of a driver that a test has made, as its process would post it."""

from landfall.api.contract import Status
from landfall.driver.http.status import StatusReport, driver_report
from landfall.driver.process.loop import Driver


def status_of(driver: Driver) -> Status:
    """The driver's status now."""
    return report_of(driver).status


def report_of(driver: Driver) -> StatusReport:
    """The driver's report now."""
    lane = driver.writer.lane.name
    return driver_report(driver.group, lane, driver.progress(), driver.counters)
