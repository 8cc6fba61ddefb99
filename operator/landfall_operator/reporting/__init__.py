"""What the operator reports about a group: status, conditions and the texts of Events. Pure."""
