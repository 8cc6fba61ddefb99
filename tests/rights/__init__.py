"""Checks that operator and drivers have the least rights: each right is used and needed.

Scenarios (``stories``) run against a real API server with a Role that grants all rights, or all but
one. The API server's audit log shows which rights were used and which requests were denied.
``python -m tests.rights`` removes one right after the other and expects a scenario to be denied; CI
runs each scenario once and looks for rights that nothing uses.
"""
