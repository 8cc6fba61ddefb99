"""What the operator says about a group: status, conditions, event texts. Pure."""
