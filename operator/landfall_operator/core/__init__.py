"""What the operator decides about one group, from one observation of it. Pure."""
