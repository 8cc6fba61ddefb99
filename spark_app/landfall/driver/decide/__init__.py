"""The driver's decisions: members, results to commit, how long records have waited. Pure."""
