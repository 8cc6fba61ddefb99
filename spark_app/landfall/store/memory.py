"""Objects in memory: the twin the tests break on purpose."""
