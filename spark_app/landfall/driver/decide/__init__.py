"""What the driver decides: members, results to commit, how long records have waited. Pure."""
