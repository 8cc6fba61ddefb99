"""The operator's decisions about one group, from one observation of it. Pure."""
