"""What the driver decides: who is a member, what of a batch may be committed, since when records wait. Pure."""
