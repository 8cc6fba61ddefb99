"""The status of a driver that a test has made, as its process would post it."""

from landfall.api.contract import Status
from landfall.driver.loop import Driver
from landfall.driver.status import driver_status


def status_of(driver: Driver) -> Status:
    """The driver's status now."""
    return driver_status(driver.group, driver.writer.lane.name, driver.progress(), driver.counters)
