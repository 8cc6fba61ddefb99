"""``landfall migrate``: reads the input, prints the group and the report, and checks the join.

``arguments.add`` is what ``landfall`` calls to take the command in.
"""
