"""What the operator decides about one group, from one snapshot of it. Pure."""
