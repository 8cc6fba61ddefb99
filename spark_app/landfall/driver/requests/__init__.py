"""Requests of users: executed by a driver, or by a session of the command line without one."""
